package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
)

// unixEnds connects to a socket of this name, by system calls of this thread.
func unixEnds(t *testing.T, name string, kind int) (client, server int) {
	t.Helper()
	must := func(fd int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	listener, address := must(unix.Socket(unix.AF_UNIX, kind, 0)), &unix.SockaddrUnix{Name: name}
	defer func() { _ = unix.Close(listener) }() // its connections stay
	client = must(unix.Socket(unix.AF_UNIX, kind, 0))
	must(0, unix.Bind(listener, address))
	must(0, unix.Listen(listener, 1))
	must(0, unix.Connect(client, address))
	server, _, err := unix.Accept(listener)
	must(server, err)
	if name[0] != '@' {
		must(0, os.Remove(name))
	}
	return client, server
}

// said is what came over the ring, a word each: spans by the order in which they began.
type said struct {
	tracer *Tracer
	spans  map[uint64]int
}

func (s *said) take(t *testing.T) string {
	t.Helper()
	var words []string
	var r event.Record
	for {
		n := len(words)
		if _, err := s.tracer.Poll(20*time.Millisecond, func(raw []byte) {
			if err := r.Decode(raw); err != nil {
				t.Error(err)
			}
			switch r.Type {
			case bpf.TareRecordTypeTARE_START:
				s.spans[r.Start.SpanId] = len(s.spans) + 1
				word := map[uint8]string{1: "serves", 2: "asks"}[r.Start.Role]
				if bpf.TareTransport(r.Start.Transport) != bpf.TareTransportTARE_OVER_UNIX {
					word += " elsewhere"
				}
				if r.Start.Ends != 0 {
					word += fmt.Sprint(" after ", s.spans[r.Start.Ends])
				}
				words = append(words, fmt.Sprintf("%d<%d %s", s.spans[r.Start.SpanId], s.spans[r.Start.ParentId], word))
			case bpf.TareRecordTypeTARE_PATH:
				words = append(words, fmt.Sprintf("%d at %s", s.spans[r.Path.SpanId], filepath.Base(strings.TrimRight(string(r.Path.Path[:r.Path.Len]), "\x00"))))
			case bpf.TareRecordTypeTARE_DATA:
				words = append(words, fmt.Sprintf("%d %d bytes", s.spans[r.Data.SpanID], r.Data.Bytes))
			case bpf.TareRecordTypeTARE_END:
				words = append(words, fmt.Sprintf("%d ends", s.spans[r.End.SpanId]))
			}
		}); err != nil {
			t.Fatal(err)
		}
		if len(words) == n {
			return strings.Join(words, ", ")
		}
	}
}

// A context goes over a unix socket, and a request that is given up leaves nothing behind,
// whoever closes and whether or not anybody is told.
func TestUnix(t *testing.T) {
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tracer := loadWith(t, chosen, "unix")
		defer tracer.Close()
		loop := netip.MustParsePrefix("127.0.0.0/8")
		_, err := tracer.Trust([]Network{{Prefix: loop}})
		for _, err := range []error{
			err, tracer.SetService(1, "both", 0), tracer.EnableEntry(true),
			tracer.AddProcess(uint32(os.Getpid()), bpf.Service{Index: 1, Linking: uint8(bpf.LinkThread)}),
			tracer.Armed(uint32(os.Getpid())),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		s := &said{tracer, map[uint64]int{}}
		check := func(got, want string, live uint64) {
			t.Helper()
			if got != want {
				t.Errorf("records:\n%s\nwant:\n%s", got, want)
			}
			var n uint64
			if err := tracer.objs.LiveRequests.Get(&n); err != nil || n != live {
				t.Errorf("%d requests in flight, want %d: %v", n, live, err)
			}
		}
		expect := func(want string, live uint64) {
			t.Helper()
			check(s.take(t), want, live)
		}
		write := func(fd int, text string) {
			t.Helper()
			if _, err := unix.Write(fd, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		read := func(fd int) {
			t.Helper()
			if _, err := unix.Read(fd, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		closes := func(fds ...int) {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
		const request, response = "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"

		c1, s1 := unixEnds(t, filepath.Join(dir, "one"), unix.SOCK_STREAM)
		c2, s2 := unixEnds(t, "@two", unix.SOCK_STREAM)
		write(c1, request) // its own call: no request caused it
		read(s1)
		expect("1<0 asks, 1 at one, 2<1 serves, 2 at one", 1)
		write(c2, request) // of the first
		read(s2)
		expect("3<2 asks, 3 at \x00two, 4<3 serves, 4 at \x00two", 2)
		write(s2, response)
		read(c2)
		write(s1, response)
		read(c1)
		expect("4 19 bytes, 3 19 bytes, 2 19 bytes, 1 19 bytes", 0)
		write(c1, request) // the same connections again, and both are given up
		read(s1)
		write(c2, request)
		read(s2)
		expect("5<0 asks after 1, 5 at one, 6<5 serves after 2, 6 at one, 7<6 asks after 3, 7 at \x00two, 8<7 serves after 4, 8 at \x00two", 2)
		closes(s2)
		if n, err := unix.Read(c2, make([]byte, 1)); n > 0 || err != nil {
			t.Fatal(n, err)
		}
		expect("7 ends, 8 ends", 1) // the client has heard of it
		closes(c1, s1)
		expect("", 1) // nobody has
		if err := tracer.SweepUnix(); err != nil {
			t.Fatal(err)
		}
		ended := strings.Split(s.take(t), ", ")
		slices.Sort(ended) // the sweep walks a hash map
		check(strings.Join(ended, ", "), "5 ends, 6 ends", 0)
		closes(c2)

		c1, s1 = unixEnds(t, filepath.Join(dir, "three"), unix.SOCK_STREAM)
		write(c1, request)
		read(s1)
		expect("9<0 asks, 9 at three, 10<9 serves, 10 at three", 1)
		closes(c1)
		if _, err := unix.SendmsgN(s1, []byte(response), nil, nil, unix.MSG_NOSIGNAL); err != unix.EPIPE {
			t.Fatal(err)
		}
		expect("10 ends", 0) // its client had left
		closes(s1)

		// What was open before the hooks were attached is not followed, nor are other kinds.
		if err := tracer.Demand(tier.Unix, false); err != nil {
			t.Fatal(err)
		}
		c1, s1 = unixEnds(t, filepath.Join(dir, "four"), unix.SOCK_STREAM)
		if err := tracer.Demand(tier.Unix, true); err != nil {
			t.Fatal(err)
		}
		c2, s2 = unixEnds(t, filepath.Join(dir, "five"), unix.SOCK_SEQPACKET)
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, ends := range [][2]int{{c1, s1}, {c2, s2}, pair} {
			for range 2 {
				write(ends[0], request)
				read(ends[1])
				write(ends[1], response)
				read(ends[0])
			}
			closes(ends[0], ends[1])
		}
		expect("", 0)
		n, err := tracer.Counters()
		if err != nil || n.N[bpf.TareCounterTARE_C_UNIX_OLD] != 2 {
			t.Errorf("%d ends of older connections, want 2: %v", n.N[bpf.TareCounterTARE_C_UNIX_OLD], err)
		}
	})
}
