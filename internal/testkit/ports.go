package testkit

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/freeport"
)

// FreePort is a port, of all addresses, that no other test has.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.On("")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Listen listens on a TCP address, also on one where this process listened before. It waits while the address is in use:
// a child that is being started keeps an inherited socket open until it calls exec.
func Listen(t testing.TB, address string) (l net.Listener) {
	t.Helper()
	Until(t, time.Minute, "nobody listens at "+address, func() bool {
		var err error
		if l, err = net.Listen("tcp", address); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		return err == nil
	})
	return l
}
