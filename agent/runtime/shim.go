package runtime

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
func readShim(dir string, t *bpf.TaskProgram) error {
	text, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return err
	}
	memory, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }() // what was read was read
	left := maxMappings
	for line := range strings.Lines(string(text)) {
		from, size, named, ok := writable(line)
		if !ok {
			continue
		}
		if left--; left < 0 {
			break
		}
		var head [shimHeader]byte
		if _, err := memory.ReadAt(head[:], int64(from)); err != nil || !bytes.HasPrefix(head[:], []byte(shimMagic)) { //nolint:gosec // an address of user space
			continue
		}
		slots := binary.NativeEndian.Uint32(head[len(shimMagic):])
		if bits.OnesCount32(slots) != 1 || slots > shimSlots || shimHeader+uint64(slots)*shimHeader > size {
			if named {
				return errors.New("the table of its shim has an unknown shape")
			}
			continue
		}
		t.Shim.Table, t.Shim.Slots = from+shimHeader, slots
		return nil
	}
	return nil
}

// writable reads a line of /proc/PID/maps.
func writable(line string) (from, size uint64, named, ok bool) {
	span, rest, _ := strings.Cut(line, " ")
	low, high, _ := strings.Cut(span, "-")
	from, err := strconv.ParseUint(low, 16, 64)
	to, err2 := strconv.ParseUint(high, 16, 64)
	if err != nil || err2 != nil || to < from || !strings.HasPrefix(rest, "rw") {
		return 0, 0, false, false
	}
	named = strings.Contains(rest, shimName)
	// The files of others begin with what they please.
	return from, to - from, named, named || !strings.Contains(rest, "/") || strings.Contains(rest, "/dev/zero")
}
