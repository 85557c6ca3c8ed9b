package discover

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// tables are the TCP sockets of the network namespaces that were read, by
// inode number: unique across namespaces.
type tables struct {
	root    string
	done    map[uint32]error // by namespace
	sockets map[uint64]socket
}

type socket struct {
	port      uint16 // local
	listening bool
}

func newTables(root string) *tables {
	return &tables{root: root, done: map[uint32]error{}, sockets: map[uint64]socket{}}
}

// read reads the tables of the process's network namespace, once.
func (t *tables) read(p *process) error {
	ns, err := p.netns()
	if err != nil {
		return err
	}
	if err, ok := t.done[ns]; ok {
		return err
	}
	err = t.readFile(filepath.Join(p.dir, "net/tcp6"))
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6, or gone: tcp tells
		err = t.readFile(filepath.Join(p.dir, "net/tcp"))
	}
	if !gone(err) { // else another process of the namespace may be there
		t.done[ns] = err
	}
	return err
}

func (t *tables) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	if err := parseTable(f, t.sockets); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parseTable reads /proc/net/tcp or tcp6:
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 …
//
// Sockets without an inode (TIME_WAIT, not yet accepted) belong to nobody.
// Lines that do not look so are skipped: the format may grow.
func parseTable(r io.Reader, into map[uint64]socket) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var fields [10][]byte // no slice from the heap: there may be many thousands of lines
		n := 0
		for field := range bytes.FieldsSeq(lines.Bytes()) {
			fields[n] = field
			if n++; n == len(fields) {
				break
			}
		}
		if n < len(fields) {
			continue
		}
		colon := bytes.LastIndexByte(fields[1], ':')
		port, err1 := strconv.ParseUint(string(fields[1][colon+1:]), 16, 16)
		state, err2 := strconv.ParseUint(string(fields[3]), 16, 8)
		inode, err3 := strconv.ParseUint(string(fields[9]), 10, 64)
		if colon < 0 || err1 != nil || err2 != nil || err3 != nil || inode == 0 {
			continue
		}
		const listen = 10 // TCP_LISTEN
		into[inode] = socket{port: uint16(port), listening: state == listen}
	}
	return lines.Err()
}
