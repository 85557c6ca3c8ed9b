package bench

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/resolver"
)

func TestCollectorsThatAreBroken(t *testing.T) {
	st, _, err := NewStage("tare", false)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	_, port, err := net.SplitHostPort(st.sink.Addr())
	require.NoError(t, err)
	at := func(fault experiment.Fault) string {
		t.Helper()
		got, err := st.collector(fault)
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, st.sink.Addr(), at(""), "without a fault")
	assert.Equal(t, resolver.Collector+":"+port, at(experiment.FaultNone), "by name")
	assert.Equal(t, resolver.Missing+":"+port, at(experiment.FaultUnresolved), "unresolved")
	name, other, err := net.SplitHostPort(at(experiment.FaultRefused))
	if err != nil || name != resolver.Collector {
		t.Errorf("refused: %s, %v", name, err)
	}
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", other)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to the refused port: %v, %v", c, err)
	}
	assert.Equal(t, resolver.Collector+":"+port, at(experiment.FaultSilent), "silent")
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Post(st.sink.Endpoint()+"/v1/traces", "application/x-protobuf", strings.NewReader(""))
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	// A held request is answered as soon as the fault is taken away, and not before.
	select {
	case err := <-answered:
		t.Errorf("a silent collector answered: %v", err)
	default:
	}
	st.sink.Stall(false)
	assert.NoError(t, <-answered)
	assert.ErrorContains(t, st.Resolve(t.Context()), "run with sudo", "names without a network namespace")
}
