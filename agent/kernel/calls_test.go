package kernel

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/internal/testkit"
)

// calls are what a server may receive and send with.
var (
	receives = map[string]func(t *testing.T, fd int, p []byte) (int, error){
		"read":  func(_ *testing.T, fd int, p []byte) (int, error) { return unix.Read(fd, p) },
		"readv": func(_ *testing.T, fd int, p []byte) (int, error) { return unix.Readv(fd, [][]byte{p}) },
		"recvfrom": func(_ *testing.T, fd int, p []byte) (int, error) {
			n, _, err := unix.Recvfrom(fd, p, 0)
			return n, err
		},
		"recvmsg": func(_ *testing.T, fd int, p []byte) (int, error) {
			n, _, _, _, err := unix.Recvmsg(fd, p, nil, 0)
			return n, err
		},
		"splice": func(t *testing.T, fd int, p []byte) (int, error) {
			r, w := pipe(t)
			n, err := unix.Splice(fd, nil, w, nil, len(p), 0)
			return int(n), joinRead(r, p, err)
		},
	}
	sends = map[string]func(t *testing.T, fd int, p []byte) (int, error){
		"write":  func(_ *testing.T, fd int, p []byte) (int, error) { return unix.Write(fd, p) },
		"writev": func(_ *testing.T, fd int, p []byte) (int, error) { return unix.Writev(fd, [][]byte{p[:9], p[9:]}) },
		"sendto": func(_ *testing.T, fd int, p []byte) (int, error) { return len(p), unix.Send(fd, p, 0) },
		"sendmsg": func(_ *testing.T, fd int, p []byte) (int, error) {
			return unix.SendmsgBuffers(fd, [][]byte{p[:9], p[9:]}, nil, nil, 0)
		},
		"sendmmsg": func(_ *testing.T, fd int, p []byte) (int, error) { return sendmmsg(fd, p) },
		"sendfile": func(t *testing.T, fd int, p []byte) (int, error) {
			path := filepath.Join(t.TempDir(), "response")
			if err := os.WriteFile(path, p, 0o600); err != nil {
				return 0, err
			}
			f, err := os.Open(path)
			if err != nil {
				return 0, err
			}
			defer func() { _ = f.Close() }()
			return unix.Sendfile(fd, int(f.Fd()), nil, len(p))
		},
		"splice": func(t *testing.T, fd int, p []byte) (int, error) {
			r, w := pipe(t)
			if _, err := unix.Write(w, p); err != nil {
				return 0, err
			}
			n, err := unix.Splice(r, nil, fd, nil, len(p), 0)
			return int(n), err
		},
	}
)

func pipe(t *testing.T) (r, w int) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]); _ = unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func joinRead(r int, p []byte, err error) error {
	if err == nil {
		_, err = unix.Read(r, p)
	}
	return err
}

func sendmmsg(fd int, p []byte) (int, error) {
	iov := unix.Iovec{Base: &p[0]}
	iov.SetLen(len(p))
	msg := struct {
		unix.Msghdr
		sent uint32
	}{}
	msg.Iov = &iov
	msg.SetIovlen(1)
	_, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 1, 0, 0, 0)
	runtime.KeepAlive(p)
	if errno != 0 {
		return 0, errno
	}
	return int(msg.sent), nil
}

// Requests and responses are seen with their sizes whatever system calls they are received
// and sent with; what is not received (nothing there yet, only looked at, a file that is no
// socket) is no request.
func TestSystemCalls(t *testing.T) {
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		tracer := load(t, Options{Tier: chosen.Name, Payload: true})
		defer tracer.Close()
		server, client := accepted(t, tracer)
		buf := make([]byte, 256)
		round := func(receive, send string, last bool) {
			request := fmt.Sprintf("received by %s, answered by %s\n", receive, send)
			response := fmt.Sprintf("sent by %s, in one piece or two\n", send)
			if _, _, err := unix.Recvfrom(server, buf, unix.MSG_DONTWAIT); err != unix.EAGAIN {
				t.Fatal(err)
			}
			if _, err := client.Write([]byte(request)); err != nil {
				t.Fatal(err)
			}
			if last {
				_ = client.CloseWrite()
			}
			if n, _, err := unix.Recvfrom(server, buf, unix.MSG_PEEK); n != len(request) || err != nil {
				t.Fatal(n, err)
			}
			r, w := pipe(t)
			if _, err := unix.Write(w, []byte("no socket")); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Read(r, buf); err != nil {
				t.Fatal(err)
			}
			if n, err := receives[receive](t, server, buf); n != len(request) || string(buf[:n]) != request || err != nil {
				t.Fatalf("received %q, %v", buf[:n], err)
			}
			if n, err := sends[send](t, server, []byte(response)); n != len(response) || err != nil {
				t.Fatal(n, err)
			}
			if n, err := client.Read(buf); n != len(response) || err != nil {
				t.Fatal(n, err)
			}
			wantExchange(t, tracer, receive, request, len(response))
		}
		for _, receive := range slices.Sorted(maps.Keys(receives)) {
			round(receive, "write", false)
		}
		for _, send := range slices.Sorted(maps.Keys(sends)) {
			round("read", send, false)
		}
		round("read", "write", true) // the peer's FIN is read, too
		if n, err := unix.Read(server, buf); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
}

// accepted is a traced connection whose peer is not.
func accepted(t *testing.T, tracer *Tracer) (server int, client *net.TCPConn) {
	t.Helper()
	return acceptedBy(t, tracer, bpf.LinkNone)
}

func acceptedBy(t *testing.T, tracer *Tracer, linking bpf.TareLinking) (server int, client *net.TCPConn) {
	t.Helper()
	self := traceSelf(t, tracer, linking)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := tracer.RemoveProcess(self); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	server = int(f.Fd()) // blocking from here on
	return server, c.(*net.TCPConn)
}

// A response is over when its process closes the connection, whatever the peer does: what ends a connection later may
// happen in an interrupt, where the kernel may leave a program out.
func TestClosedHere(t *testing.T) {
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		tracer := load(t, Options{Tier: chosen.Name})
		defer tracer.Close()
		server, client := accepted(t, tracer)
		buf := make([]byte, 64)
		if _, err := client.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Read(server, buf); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(server, []byte("response")); err != nil {
			t.Fatal(err)
		}
		if err := unix.Shutdown(server, unix.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		var r event.Record
		begun, ended := uint64(0), uint64(0)
		for deadline := testkit.NewDeadline(5 * time.Second); ended == 0 && !deadline.Over(); {
			if _, err := tracer.Poll(50*time.Millisecond, func(raw []byte) {
				if err := r.Decode(raw); err != nil {
					t.Error(err)
				}
				switch r.Type {
				case bpf.TareRecordTypeTARE_START:
					begun = r.Start.SpanId
				case bpf.TareRecordTypeTARE_END:
					ended = r.End.SpanId
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if begun == 0 || ended != begun {
			t.Errorf("request %x begins, %x ends", begun, ended)
		}
	})
}

// wantExchange wants the records of one request and the beginning of its response.
func wantExchange(t *testing.T, tracer *Tracer, receive, request string, response int) {
	t.Helper()
	name := request
	if receive == "splice" {
		name = "" // its bytes are not read
	}
	var r event.Record
	var got []string
	want := []string{fmt.Sprintf("request of %d bytes %q", len(request), name), fmt.Sprintf("response of %d bytes", response)}
	for deadline := time.Now().Add(5 * time.Second); len(got) < len(want) && time.Now().Before(deadline); {
		if _, err := tracer.Poll(50*time.Millisecond, func(raw []byte) {
			if err := r.Decode(raw); err != nil {
				t.Error(err)
			}
			switch {
			case r.Type == bpf.TareRecordTypeTARE_START:
				got = append(got, fmt.Sprintf("request of %d bytes %q", r.Start.Bytes, r.Payload()))
			case r.Type == bpf.TareRecordTypeTARE_DATA:
				got = append(got, fmt.Sprintf("response of %d bytes", r.Data.Bytes))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
