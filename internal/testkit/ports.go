package testkit

import (
	"testing"

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
