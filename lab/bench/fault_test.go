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
	if got := at(""); got != st.sink.Addr() {
		t.Errorf("without a fault: %s", got)
	}
	if got := at(experiment.FaultNone); got != resolver.Collector+":"+port {
		t.Errorf("by name: %s", got)
	}
	if got := at(experiment.FaultUnresolved); got != resolver.Missing+":"+port {
		t.Errorf("unresolved: %s", got)
	}
	name, other, err := net.SplitHostPort(at(experiment.FaultRefused))
	if err != nil || name != resolver.Collector {
		t.Errorf("refused: %s, %v", name, err)
	}
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", other)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to the refused port: %v, %v", c, err)
	}
	if got := at(experiment.FaultSilent); got != resolver.Collector+":"+port {
		t.Errorf("silent: %s", got)
	}
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
	if err := st.Resolve(t.Context()); err == nil || !strings.Contains(err.Error(), "run with sudo") {
		t.Errorf("names without a network namespace: %v", err)
	}
}
