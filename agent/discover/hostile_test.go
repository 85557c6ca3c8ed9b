package discover

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
	"github.com/tare-trace/tare/agent/tier"
)

// Arguments of any length and number name a process, and nothing of them is kept.
func TestHostileArguments(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	const n = 200
	write := func(pid int, b []byte, size int64) {
		name := filepath.Join(f.root, strconv.Itoa(pid), "cmdline")
		if err := errors.Join(os.WriteFile(name, b, 0o600), os.Truncate(name, size)); err != nil {
			t.Fatal(err)
		}
	}
	for pid := 1; pid <= n; pid++ {
		f.add(fakeProcess{pid: pid, exe: "/usr/bin/python3.11", cgroup: "/x", netns: 1}, "", "")
		switch pid % 3 {
		case 0: // without end
			write(pid, []byte("python3\x00/srv/shop/main.py\x00"), 100<<20)
		case 1: // arguments without end
			write(pid, []byte(strings.Repeat("-\x00", maxArgs)), 2*maxArgs)
		case 2: // a name without end
			write(pid, []byte("python3\x00/srv/"+strings.Repeat("x", maxArgs)), maxArgs+13)
		}
	}
	s := New(f.root, rules(t, "TARE_EXES=*/python*"), nil)
	readingtest.Live(t, func() {
		ps, err := s.Scan()
		if err != nil || len(ps) != n {
			t.Errorf("%d processes, %v", len(ps), err)
		}
		for _, p := range ps {
			want := "python3.11"
			if p.PID%3 == 0 {
				want = "shop"
			}
			if p.Service.Name != want {
				t.Errorf("%d: %.80q, want %q", p.PID, p.Service.Name, want)
			}
		}
	})
}

// memory is a directory that is on no disk, where there is one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tare")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// One process, one container and all of them have so many sockets noted; a listener of another
// container is found beside them.
func TestManySockets(t *testing.T) {
	dir := memory(t)
	for i := range maxSockets + 100 {
		if err := os.Symlink(fmt.Sprintf("socket:[%d]", 1000+i), filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	before := reading.Unread(reading.Shape)
	inodes, err := socketInodes(dir)
	if err != nil || len(inodes) != maxSockets || !slices.IsSorted(inodes) || reading.Unread(reading.Shape) == before {
		t.Errorf("%d sockets, %v", len(inodes), err)
	}
	var s share
	of := func(pid int, container string) *process {
		text := "0::/" + container
		return &process{pid: pid, in: &container, cgroups: &text}
	}
	take := func(p *process, n, want int) {
		t.Helper()
		if kept, err := s.take(p, inodes[:n]); err != nil || len(kept) != want {
			t.Errorf("process %d keeps %d of %d, want %d: %v", p.pid, len(kept), n, want, err)
		}
	}
	for range 3 { // looked at again, it has no more than before
		take(of(1, "a"), maxSockets, maxSockets)
	}
	take(of(2, "a"), maxSockets, maxSockets)
	take(of(3, "a"), maxSockets, 0)
	take(of(4, "a"), fewSockets, fewSockets)
	take(of(1, "a"), 10, 10)
	take(of(3, "a"), maxSockets, maxSockets)
	for i := range 2 * maxScanSockets / maxSockets {
		_, _ = s.take(of(100+i, fmt.Sprint(i)), inodes)
	}
	if s.all > maxScanSockets {
		t.Errorf("%d sockets of all", s.all)
	}
}

// Descriptors of a process that all lead to one socket are that one.
func TestManyDescriptors(t *testing.T) {
	dir := memory(t)
	for i := range 2 * maxSockets {
		if err := os.Symlink("socket:[7]", filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	var inodes []uint64
	readingtest.Live(t, func() { inodes, _ = socketInodes(dir) })
	if !slices.Equal(inodes, []uint64{7}) || cap(inodes) > 8 {
		t.Errorf("%d sockets, room for %d", len(inodes), cap(inodes))
	}
}

// list is a table of the proc file system with any number of lines.
type list struct {
	line func(i int) string
	n, i int
	rest string
}

func (l *list) Read(b []byte) (int, error) {
	if l.rest == "" {
		if l.i == l.n {
			return 0, io.EOF
		}
		l.rest = l.line(l.i)
		l.i++
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// A network namespace with any number of sockets has so many noted, and leaves room for others.
func TestManyInTables(t *testing.T) {
	const n = 3 * maxNoted
	unix := func(flags, path string) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf("0000000000000000: 00000002 00000000 %s 0001 01 %d%s\n", flags, 1+i, path)
		}
	}
	udp := func(i int) string {
		return fmt.Sprintf("  1: 0100007F:C350 3500007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 %d 2 0000000000000000 0\n", 1+i)
	}
	for name, c := range map[string]struct {
		parse func(*tables, io.Reader) error
		line  func(i int) string
		fails bool
	}{
		"tcp":                    {(*tables).parsePorts, func(i int) string { return row(1+i%60000, tcpListen, 1+i) }, false},
		"udp":                    {(*tables).parseUDP, udp, true},
		"unix that listen":       {(*tables).parseUnix, unix("00010000", " /run/x"), true},
		"unix that are no names": {(*tables).parseUnix, unix("00000000", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			found := &tables{ports: map[uint64]uint16{}, needs: map[uint64]tier.Demand{}, others: map[uint64]other{}}
			before := reading.Unread(reading.Shape)
			var err error
			readingtest.Live(t, func() { err = c.parse(found, &list{line: c.line, n: n}) })
			if (err != nil) != c.fails || reading.Unread(reading.Shape) == before {
				t.Errorf("%v, counted %d", err, reading.Unread(reading.Shape)-before)
			}
			for _, have := range []int{len(found.ports), len(found.needs), len(found.others)} {
				if have > maxNoted {
					t.Errorf("%d sockets", have)
				}
			}
			found.noted = 0 // another namespace
			again := &list{line: func(i int) string { return c.line(n + i) }, n: 100}
			if err := c.parse(found, again); err != nil {
				t.Errorf("another namespace: %v", err)
			}
		})
	}
}

// A process with any number of children, and theirs, has so many looked at.
func TestManyChildren(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	children := func(pid int, text string) {
		dir := filepath.Join(f.root, strconv.Itoa(pid), "task", strconv.Itoa(pid))
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "children"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var many strings.Builder
	for i := range 100000 {
		fmt.Fprint(&many, 1000+i, " ")
	}
	children(1, "2 3 ")
	children(2, many.String())
	children(3, "1 2 4 ") // which cannot be
	s := New(f.root, rules(t, "TARE_EXES=*"), nil)
	if found := s.Children(1); len(found) != maxChildren || found[0] != 2 || found[1] != 3 {
		t.Errorf("%d children: %v", len(found), found[:2])
	}
	for pid := 10; pid < 100; pid++ { // each of which has one
		children(pid, strconv.Itoa(pid+1))
	}
	if found := s.Children(10); len(found) != 90 || found[89] != 100 {
		t.Errorf("%v of a row of processes", found)
	}
}

// A name of a process's file system that leads out of it, or to a FIFO, is no name of its executable.
func TestHostileLinks(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	exe := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(exe, nil, 0o700); err != nil { //nolint:gosec // an executable
		t.Fatal(err)
	}
	f.add(fakeProcess{pid: 1, exe: exe, cgroup: "/x", netns: 1}, "", "")
	root := filepath.Join(f.root, "1", "root")
	if err := errors.Join(os.Mkdir(root, 0o700), os.Symlink(exe, filepath.Join(root, "absolute")), os.Link(exe, filepath.Join(root, "hard"))); err != nil {
		t.Skip(err) // another file system
	}
	p, err := openProcess(f.root, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !p.linked("/hard") || p.linked("/absolute") || p.linked("/none") {
		t.Errorf("hard link %v, a link out of its root %v, none %v", p.linked("/hard"), p.linked("/absolute"), p.linked("/none"))
	}
}
