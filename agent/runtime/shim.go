package runtime

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/bpf"
)

// A shim's table begins a mapping, with this; then come how many records it has, and
// from shimHeader bytes on the records (runtimes/PROTOCOL.md).
const (
	shimMagic  = "\x00tare-threads-v1\x00\x9e\x37\x79\xb9\x7f\x4a\x7c\x15\xf3\x9c\xc0\x60\x5c\xed\xc8"
	shimName   = "tare-threads"
	shimHeader = 64
	shimSlots  = 1 << 20 // at most
	// mappings that are looked at: a JVM or Node has some hundred.
	maxMappings = 1 << 14
)

var errNoShim = errors.New("no shim in it: runtimes/README.md")

// readShim finds the table of a shim; there is none in most processes.
func readShim(dir string, a *reading.Account, t *bpf.TaskProgram) (err error) {
	file, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // what was read was read
	memory, left := a.Of(file), maxMappings
	var unknown error
	err = native.Mappings(dir, a, func(m native.Mapping, name []byte) bool {
		named := bytes.Contains(name, []byte(shimName))
		// The files of others begin with what they please.
		if !m.Writable || !named && bytes.Contains(name, []byte("/")) && !bytes.Contains(name, []byte("/dev/zero")) {
			return true
		}
		if left--; left < 0 {
			return false
		}
		var head [shimHeader]byte
		if _, err := memory.ReadAt(head[:], int64(m.Low)); err != nil || !bytes.HasPrefix(head[:], []byte(shimMagic)) { //nolint:gosec // an address of user space
			return true
		}
		slots := binary.NativeEndian.Uint32(head[len(shimMagic):])
		if bits.OnesCount32(slots) != 1 || slots > shimSlots || shimHeader+uint64(slots)*shimHeader > m.High-m.Low {
			if named {
				unknown = errors.New("the table of its shim has an unknown shape")
			}
			return !named
		}
		t.Shim.Table, t.Shim.Slots = m.Low+shimHeader, slots
		return false
	})
	return cmp.Or(err, unknown)
}
