package meter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// link reads the counters of a network interface, by files that stay open.
type link struct {
	name           string
	bytes, packets *os.File
}

type traffic struct{ bytes, packets uint64 }

func (l *link) open() error {
	if l.name != filepath.Base(l.name) || l.name == "." || l.name == ".." {
		return fmt.Errorf("network interface: %q is no name of one", l.name)
	}
	dir := filepath.Join("/sys/class/net", l.name, "statistics")
	var err error
	if l.bytes, err = os.Open(filepath.Join(dir, "rx_bytes")); err == nil {
		l.packets, err = os.Open(filepath.Join(dir, "rx_packets"))
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("network interface: there is no %q in this network namespace", l.name)
	}
	return err
}

func (l *link) read() (t traffic, err error) {
	if t.bytes, err = readNumber(l.bytes); err == nil {
		t.packets, err = readNumber(l.packets)
	}
	if err != nil {
		return t, fmt.Errorf("counters of network interface %s: %w", l.name, err)
	}
	return t, nil
}

func readNumber(f *os.File) (uint64, error) {
	var buf [32]byte
	n, err := f.ReadAt(buf[:], 0)
	if n == 0 {
		return 0, err
	}
	return parseNumber(buf[:n])
}

func parseNumber(b []byte) (uint64, error) {
	return strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
}

func (l *link) close() {
	for _, f := range []*os.File{l.bytes, l.packets} {
		if f != nil {
			f.Close() //nolint:errcheck // it was only read
		}
	}
}
