package kernel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/internal/testkit"
)

// query asks for the address of a name of one letter.
func query(id byte) []byte {
	return []byte{0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}
}

func answered(query []byte) []byte {
	a := slices.Clone(query)
	a[2] |= 0x80
	return a
}

// datagrams is a socket of this thread that is connected, and the one that it is connected to.
func datagrams(t *testing.T, ip [4]byte, port uint16) (fd int, peer *net.UDPConn) {
	t.Helper()
	peer, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(ip), port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: ip, Port: int(port)}); err != nil {
		t.Fatal(err)
	}
	return fd, peer
}

// records are those of look-ups until an end, or until nothing comes for a while: each as
// a word, with its span by the order in which they began.
func records(t *testing.T, tracer *Tracer, n int) (got []string, parents []uint64) {
	t.Helper()
	var r event.Record
	spans := map[uint64]int{}
	for deadline := time.Now().Add(10 * time.Second); len(got) < n && time.Now().Before(deadline); {
		if _, err := tracer.Poll(50*time.Millisecond, func(raw []byte) {
			if err := r.Decode(raw); err != nil {
				t.Error(err)
			}
			switch r.Type {
			case bpf.TareRecordTypeTARE_START:
				spans[r.Start.SpanId] = len(spans)
				parents = append(parents, r.Start.ParentId)
				got = append(got, fmt.Sprintf("%d over %d to %d: %x", spans[r.Start.SpanId], r.Start.Transport, r.Start.RemotePort, r.Payload()))
			case bpf.TareRecordTypeTARE_DATA:
				got = append(got, fmt.Sprintf("%d %d %d bytes %x", spans[r.Data.SpanID], r.Data.Direction, r.Data.Bytes, r.Payload()))
			case bpf.TareRecordTypeTARE_END:
				got = append(got, fmt.Sprintf("%d ends by %d", spans[r.End.SpanId], r.End.Reason))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return got, parents
}

// A thread that works for a sampled request asks for names: each query is a span until
// its answer, and is counted where it cannot be.
func TestLookups(t *testing.T) {
	eachTier(t, func(t *testing.T, chosen *tier.Tier) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tracer := loadWith(t, chosen, "lookups")
		defer tracer.Close()
		wanted := make(chan uint32, 64)
		ctx, cancel := context.WithCancel(t.Context())
		listened := make(chan error)
		go func() {
			listened <- tracer.Control(ctx, func(r bpf.Control) {
				if bpf.TareControlType(r.Type) == bpf.TareControlTypeTARE_LOOKS_UP {
					wanted <- r.Tgid
				}
			})
		}()
		defer func() {
			cancel()
			if err := <-listened; err != nil {
				t.Error(err)
			}
		}()
		server, client := acceptedBy(t, tracer, bpf.LinkThread)
		self := traceSelf(t, tracer, bpf.LinkThread)
		if err := tracer.SetService(7, "self", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Write([]byte("GET /n/1 HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 512)
		if n, err := unix.Read(server, buf); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		first, _ := records(t, tracer, 1)
		if len(first) != 1 {
			t.Fatalf("%q", first)
		}

		ip := [4]byte{127, byte(16 + rand.N(200)), byte(rand.N(256)), byte(1 + rand.N(254))}
		fd, names := datagrams(t, ip, 53)
		send := func(fd int, p []byte) {
			t.Helper()
			if n, err := unix.Write(fd, p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		answer := func(p []byte) {
			t.Helper()
			n, from, err := names.ReadFromUDPAddrPort(buf)
			if err != nil || n == 0 {
				t.Fatal(err)
			}
			if _, err := names.WriteToUDPAddrPort(p, from); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Read(fd, buf); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		send(fd, query(1))
		send(fd, query(2))
		send(fd, query(1)) // again
		send(fd, answered(query(3)))
		send(fd, query(4)[:11])
		answer(answered(query(9))) // nobody's
		answer(answered(query(2)))
		answer(query(1)) // no answer
		answer(answered(query(1)))
		answer(answered(query(1))) // again
		got, parents := records(t, tracer, 7)
		want := []string{
			"0 over 1 to 53: 000101000001000000000000016100" + "00010001",
			"1 over 1 to 53: 000201000001000000000000016100" + "00010001",
			"0 2 19 bytes ",
			"1 1 19 bytes 00028100000100000000000001610000010001",
			"1 ends by 4",
			"0 1 19 bytes 00018100000100000000000001610000010001",
			"0 ends by 4",
		}
		if !slices.Equal(got, want) || len(parents) != 2 || parents[0] == 0 || parents[0] != parents[1] {
			t.Errorf("%q below %x, want %q", got, parents, want)
		}

		unlinked := func(of bpf.TareUnlinked) uint64 {
			c, err := tracer.Counters()
			if err != nil {
				t.Fatal(err)
			}
			return c.Unlinked[of]
		}
		// by a thread that has no request
		other := make(chan struct{})
		go func() {
			defer close(other)
			runtime.LockOSThread()
			send(fd, query(5))
		}()
		<-other
		quic, _ := datagrams(t, ip, 443)
		send(quic, append([]byte{0xc3, 0, 0, 0, 1}, make([]byte, 1200)...))
		send(quic, append([]byte{0xd3, 0x6b, 0x33, 0x43, 0xcf}, make([]byte, 1200)...))
		send(quic, append([]byte{0xe3, 0, 0, 0, 1}, make([]byte, 1200)...)) // Handshake
		send(quic, append([]byte{0x43, 0, 0, 0, 1}, make([]byte, 1200)...)) // 1-RTT
		if a, b, c := unlinked(bpf.TareUnlinkedTARE_UNLINKED_NO_REQUEST), unlinked(bpf.TareUnlinkedTARE_UNLINKED_QUIC), unlinked(bpf.TareUnlinkedTARE_UNLINKED_UNWATCHED); a != 1 || b != 2 || c != 0 {
			t.Errorf("%d by no request, %d of QUIC, %d unwatched; want 1, 2, 0", a, b, c)
		}

		if err := tracer.Demand(tier.Lookups, false); err != nil {
			t.Fatal(err)
		}
		again, _ := datagrams(t, ip, 5353)
		for _, port := range []int{80, 53} {
			if err := unix.Connect(again, &unix.SockaddrInet4{Addr: ip, Port: port}); err != nil {
				t.Fatal(err)
			}
		}
		send(again, query(6))
		if n := unlinked(bpf.TareUnlinkedTARE_UNLINKED_UNWATCHED); n != 1 {
			t.Errorf("%d look-ups are unwatched, want 1", n)
		}
		if err := tracer.Demand(tier.Lookups, true); err != nil {
			t.Fatal(err)
		}
		send(again, query(7))
		if got, _ := records(t, tracer, 1); len(got) != 1 || got[0] != "0 over 1 to 53: 000701000001000000000000016100"+"00010001" {
			t.Errorf("%q", got)
		}
		select {
		case tgid := <-wanted:
			if tgid != self {
				t.Errorf("the hooks are wanted for process %d", tgid)
			}
		case <-time.After(testkit.Patient(10 * time.Second)):
			t.Error("nobody has asked for the hooks")
		}
		if _, err := unix.Write(server, []byte("HTTP/1.1 200 OK\r\n\r\n"+strconv.Itoa(1))); err != nil {
			t.Fatal(err)
		}
	})
}
