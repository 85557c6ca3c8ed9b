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

// tables are the listening TCP sockets of the network namespaces that were
// asked, by inode number: unique across namespaces.
type tables struct {
	root  string
	diag  *bool            // whether the kernel answers sock_diag, as far as known
	done  map[uint32]error // by namespace
	ports map[uint64]uint16
	unix  map[uint64]bool // unix stream sockets that listen; nil: not asked for
}

// read asks for the listeners of the process's network namespace, once.
func (t *tables) read(p *process) error {
	ns, err := p.netns()
	if err != nil {
		return err
	}
	if err, ok := t.done[ns]; ok {
		return err
	}
	err = t.ask(p)
	if err == nil && t.unix != nil {
		_ = t.readFile(filepath.Join(p.dir, "net/unix"), t.parseUnix) // a kernel without unix sockets has no such file
	}
	if !gone(err) { // else another process of the namespace may be there
		t.done[ns] = err
	}
	return err
}

// ask prefers sock_diag, which gives listeners alone: /proc/PID/net/tcp walks
// the hash table of all connections of the machine, some ms for each of IPv4 and
// IPv6, however few there are.
func (t *tables) ask(p *process) error {
	if *t.diag {
		err := InNetNS(p.pid, func() error { return diagListeners(t.ports) })
		if err == nil || gone(err) && !p.exists() {
			return err
		}
		*t.diag = false // a kernel without it, or no privilege to enter
	}
	err := t.readFile(filepath.Join(p.dir, "net/tcp6"), t.parsePorts)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6, or gone: tcp tells
		err = t.readFile(filepath.Join(p.dir, "net/tcp"), t.parsePorts)
	}
	return err
}

func (t *tables) readFile(path string, parse func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	if err := parse(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (t *tables) parsePorts(r io.Reader) error { return parseTable(r, t.ports) }

// parseTable reads the listeners of /proc/net/tcp or tcp6:
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 …
//
// Lines that do not look so are skipped: the format may grow.
func parseTable(r io.Reader, into map[uint64]uint16) error {
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
		if colon < 0 || err1 != nil || err2 != nil || err3 != nil || inode == 0 || state != tcpListen {
			continue
		}
		into[inode] = uint16(port)
	}
	return lines.Err()
}

// parseUnix reads the stream sockets that listen of /proc/net/unix:
//
//	Num       RefCount Protocol Flags    Type St Inode Path
//	00000000…: 00000002 00000000 00010000 0001 01 12345 /run/x.sock
func (t *tables) parseUnix(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 7 || string(f[3]) != "00010000" || string(f[4]) != "0001" { // __SO_ACCEPTCON, SOCK_STREAM
			continue
		}
		if inode, err := strconv.ParseUint(string(f[6]), 10, 64); err == nil {
			t.unix[inode] = true
		}
	}
	return lines.Err()
}
