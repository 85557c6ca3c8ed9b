package freeport

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was given is not given again, though nobody listens there yet.
func TestGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		p, err := On("127.0.0.1")
		require.NoError(t, err)
		if seen[p] || p < firstPort || p >= lastPort {
			t.Errorf("port %d", p)
		}
		seen[p] = true
	}
	for p := range seen {
		if again, err := Where("127.0.0.1", func(port int) bool { return port != p }); err == nil {
			t.Errorf("port %d was given twice", again)
		}
		break
	}
}

func TestNoSuchAddress(t *testing.T) {
	if p, err := On("240.0.0.1"); err == nil {
		t.Errorf("port %d of an address that no machine has", p)
	}
}

// A port can be listened on as soon as it is given, even while other goroutines start children, which inherit sockets
// until they call exec.
func TestFreeWhileChildrenStart(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var starting sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					if err := exec.Command(self, "-test.run=^$").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	defer starting.Wait()
	defer close(end)
	for range 1000 {
		p, err := On("127.0.0.1")
		require.NoError(t, err)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		require.NoError(t, err)
		l.Close()
	}
}
