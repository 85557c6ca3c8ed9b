package workloads

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseListeners(t *testing.T) {
	const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F91 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   3: 0000000000000000FFFF00000200020A:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1 0000000000000000 100 0 0 10 0
`
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("written on a little-endian machine")
	}
	got := parseListeners([]byte(text))
	want := []listener{
		{netip.MustParseAddr("127.0.0.1"), 8080, 4711},
		{netip.MustParseAddr("::1"), 22, 4713},
		{netip.MustParseAddr("::ffff:10.2.0.2"), 80, 4714},
	}
	assert.Equal(t, want, got)
}

func TestListenersAreFound(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // no IPv6 here
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		err = portFree(nil, "127.0.0.1", port)
		if address == "[::1]:0" { // does not answer for 127.0.0.1
			assert.NoError(t, err, "%s", address)
		} else if want := fmt.Sprintf("port %d is in use by %s (process %d)", port, comm(t), os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", address, err, want)
		}
		_ = l.Close()
		assert.NoError(t, portFree(nil, "127.0.0.1", port), "%s, closed", address)
	}
}

func comm(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

func FuzzParseListeners(f *testing.F) {
	f.Add([]byte("0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 4711\n"))
	f.Add([]byte("0: 01007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 4711\n"))
	f.Add([]byte("0: :FFFFF x 0A 0:0 00:0 0 0 0 -1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range parseListeners(b) {
			if !l.addr.IsValid() || l.port < 0 || l.port > 65535 {
				t.Errorf("%q: %+v", b, l)
			}
		}
	})
}
