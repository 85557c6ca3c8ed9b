package native

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// What is kept of a process's mappings. A process has some hundred with a name, not counting
// data that it maps.
const (
	maxMappings = 16 << 10
	maxPaths    = 1 << 20 // bytes of their names
)

// Mapping is a line of the list of a process's mappings.
type Mapping struct {
	Low, High, Offset      uint64
	Writable, Code, Shared bool
	Path                   string // or a name in brackets, of those that are kept
}

// Mappings yields the mappings of a process, by the directory that it has in the proc file
// system, and their names, which are valid until the next, until yield returns false. What
// does not look like one is left out.
func Mappings(dir string, a *reading.Account, yield func(m Mapping, name []byte) bool) error {
	f, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	return a.Lines(f, func(line []byte) bool {
		m, name, ok := parseMapping(line)
		return !ok || yield(m, name)
	})
}

// parseMapping reads a line: low-high permissions offset device inode name
func parseMapping(line []byte) (m Mapping, name []byte, ok bool) {
	var fields [5][]byte
	rest := line
	for i := range fields {
		fields[i], rest, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	}
	low, high, _ := bytes.Cut(fields[0], []byte("-"))
	var failed [3]error
	m.Low, failed[0] = strconv.ParseUint(string(low), 16, 64)
	m.High, failed[1] = strconv.ParseUint(string(high), 16, 64)
	m.Offset, failed[2] = strconv.ParseUint(string(fields[2]), 16, 64)
	if failed != [3]error{} || m.High < m.Low || len(fields[1]) != 4 {
		return m, nil, false
	}
	m.Writable, m.Code, m.Shared = bytes.HasPrefix(fields[1], []byte("rw")), fields[1][2] == 'x', fields[1][3] == 's'
	return m, bytes.TrimLeft(rest, " "), true
}

// Libraries yields the base names of the files that a process has mapped, in the order of
// their addresses; of pieces of a file that follow each other, its name once.
func Libraries(dir string, a *reading.Account, yield func(name string) bool) error {
	var last []byte
	return Mappings(dir, a, func(_ Mapping, name []byte) bool {
		slash := bytes.LastIndexByte(name, '/')
		if slash < 0 || bytes.Equal(name, last) {
			return true
		}
		last = append(last[:0], name...)
		return yield(string(name[slash+1:]))
	})
}

// keepMappings reads those that have a name. Data that is mapped to be shared is no module.
func (p *Process) keepMappings() error {
	left, last := maxPaths, ""
	err := Mappings(p.dir, p.account, func(m Mapping, name []byte) bool {
		if len(name) == 0 || name[0] != '[' && (name[0] != '/' || m.Shared && !bytes.HasPrefix(name, []byte("/memfd:"))) {
			return true
		}
		if string(name) != last {
			last = string(name)
			left -= len(name)
		}
		if left < 0 || len(p.mappings) == maxMappings {
			p.account.Exceed()
			return false
		}
		m.Path = last
		p.mappings = append(p.mappings, m)
		return true
	})
	if err == nil {
		err = p.account.Err()
	}
	return err
}
