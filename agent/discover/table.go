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

	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/tier"
)

const portOfNames = 53 // RFC 1035, 4.2

// tables are sockets of the network namespaces that were asked, by inode number: unique
// across namespaces. They are TCP sockets that listen, and what needs hooks on demand.
type tables struct {
	root  string
	diag  *bool            // whether the kernel answers sock_diag, as far as known
	done  map[uint32]error // by namespace
	ports map[uint64]uint16
	needs map[uint64]tier.Demand // sockets that need hooks on demand; nil: not asked for

	processes map[int]*process // by their ids, that were looked at

	others map[uint64]other // what is not TCP's; nil: not asked for, or some could not be listed

	share *share
	noted int // sockets of the network namespace that is asked
}

// Sockets that are noted of a network namespace, and of all of a kind. A host has some thousand.
const (
	maxNoted  = 64 << 10
	maxTables = 128 << 10
)

var errTooManySockets = errors.New("more sockets than are noted")

// note notes a socket in one of the tables; false if there is no room.
func note[V any](t *tables, in map[uint64]V, inode uint64, v V) bool {
	if _, ok := in[inode]; !ok {
		if t.noted >= maxNoted || len(in) >= maxTables {
			return false
		}
		t.noted++
	}
	in[inode] = v
	return true
}

// other is a socket that is not TCP's, on which requests and answers may come.
type other uint8

const (
	otherNamed   other = iota + 1 // UDP, or a unix socket that has a name
	otherUnnamed                  // a unix socket without: a client's, or one of a pair
)

// read asks for the listeners of the process's network namespace, once.
func (t *tables) read(p *process) error {
	ns, err := p.netns()
	if err != nil {
		return err
	}
	if err, ok := t.done[ns]; ok {
		return err
	}
	t.noted = 0
	err = t.ask(p)
	if err == nil && t.needs != nil { // a kernel without such sockets has no such file
		for name, parse := range map[string]func(io.Reader) error{"net/unix": t.parseUnix, "net/udp": t.parseUDP, "net/udp6": t.parseUDP} {
			t.noted = 0
			if err := t.readFile(filepath.Join(p.dir, name), parse); err != nil && p.exists() && !errors.Is(err, fs.ErrNotExist) {
				t.others = nil
			}
		}
	}
	if !gone(err) { // else another process of the namespace may be there
		t.done[ns] = err
	}
	return err
}

// process is one that was looked at, or is now; nil if it cannot be.
func (t *tables) process(pid int) *process {
	p, known := t.processes[pid]
	if !known {
		p, _ = openProcess(t.root, pid)
		t.processes[pid] = p
	}
	return p
}

// ask prefers sock_diag, which gives listeners alone: /proc/PID/net/tcp walks
// the hash table of all connections of the machine, some ms for each of IPv4 and
// IPv6, however few there are.
func (t *tables) ask(p *process) error {
	if *t.diag {
		var full error
		err := InNetNS(p.pid, func() error {
			return diagListeners(func(inode uint64, port uint16) bool {
				if !note(t, t.ports, inode, port) {
					full = t.full()
				}
				return full == nil
			})
		})
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

func (t *tables) parsePorts(r io.Reader) error {
	full := false
	err := parseTable(r, func(l line) bool {
		full = l.state == tcpListen && !note(t, t.ports, l.inode, l.local)
		return !full
	})
	if full { // those that were noted are known
		_ = t.full()
	}
	return err
}

// full counts that there are more sockets than are noted.
func (t *tables) full() error {
	reading.Count(reading.Shape)
	return errTooManySockets
}

// parseUDP notes the sockets that are connected to servers of names, and that all are UDP's.
func (t *tables) parseUDP(r io.Reader) error {
	full := false
	err := parseTable(r, func(l line) bool {
		full = t.others != nil && !note(t, t.others, l.inode, otherNamed) ||
			l.remote == portOfNames && !note(t, t.needs, l.inode, tier.Lookups)
		return !full
	})
	if full {
		err = t.full()
	}
	return err
}

// line is what is read of a line of /proc/net/tcp, tcp6, udp or udp6.
type line struct {
	local, remote uint16 // ports
	state         uint8
	inode         uint64 // never 0
}

// parseTable reads such a file:
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 …
//
// Lines that do not look so are skipped: the format may grow.
func parseTable(r io.Reader, each func(line) (more bool)) error {
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
		local, ok1 := portOf(fields[1])
		remote, ok2 := portOf(fields[2])
		state, err1 := strconv.ParseUint(string(fields[3]), 16, 8)
		inode, err2 := strconv.ParseUint(string(fields[9]), 10, 64)
		if ok1 && ok2 && err1 == nil && err2 == nil && inode != 0 && !each(line{local, remote, uint8(state), inode}) {
			break
		}
	}
	return lines.Err()
}

// portOf is the port of an address as the kernel writes it: 0100007F:1F90.
func portOf(address []byte) (uint16, bool) {
	colon := bytes.LastIndexByte(address, ':')
	port, err := strconv.ParseUint(string(address[colon+1:]), 16, 16)
	return uint16(port), colon >= 0 && err == nil
}

// parseUnix reads /proc/net/unix: the stream sockets that listen, and on which something may be
// received. A datagram socket without a name is one to which nobody can send, but for pairs.
//
//	Num       RefCount Protocol Flags    Type St Inode Path
//	00000000…: 00000002 00000000 00010000 0001 01 12345 /run/x.sock
func (t *tables) parseUnix(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 7 {
			continue
		}
		inode, err := strconv.ParseUint(string(f[6]), 10, 64)
		if err != nil {
			continue
		}
		room := true
		if t.others != nil {
			switch {
			case len(f) > 7:
				room = note(t, t.others, inode, otherNamed)
			case string(f[4]) != "0002": // SOCK_DGRAM
				room = note(t, t.others, inode, otherUnnamed)
			}
		}
		if string(f[3]) == "00010000" && string(f[4]) == "0001" { // __SO_ACCEPTCON, SOCK_STREAM
			room = note(t, t.needs, inode, tier.Unix) && room
		}
		if !room {
			return t.full()
		}
	}
	return lines.Err()
}
