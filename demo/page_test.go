package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads"
)

// playRun answers like a page, writes into its store, and remembers what it
// was asked to trace.
func playRun(args []string) error {
	if os.Getenv("PLAY_CRASH") == "run" {
		return errors.New("address already in use")
	}
	var store, page string
	for i, a := range args {
		switch a {
		case "--store":
			store = args[i+1]
		case "--page":
			page = args[i+1]
		}
	}
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	l, err := net.Listen("tcp", page)
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
			_, _ = fmt.Fprintf(w, "%s\n%q\n", strings.Join(args, " "), os.Getenv("OTEL_TRACES_SAMPLER"))
		}))
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	return nil
}

// console is what a user sees, and when.
type console struct {
	mu    sync.Mutex
	b     bytes.Buffer
	shown chan struct{} // closed when the page's address is there
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := strings.Contains(c.b.String(), "page: ")
	n, err := c.b.Write(p)
	if !before && strings.Contains(c.b.String(), "page: ") {
		close(c.shown)
	}
	return n, err
}

func TestPageIsServedUntilInterrupted(t *testing.T) {
	needRoot(t)
	t.Setenv("PLAY_TRACES", "50")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off") // not for the demo
	o := quick(t)
	check := nothingLeft(t)
	var err error
	if o.Page, err = workloads.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &console{shown: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, out, io.Discard) }()
	select {
	case <-out.shown:
	case err := <-ended:
		t.Fatalf("ended before the page: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no page after a minute")
	}
	resp, err := http.Get("http://" + o.Page + "/")
	require.NoError(t, err)
	said, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for _, want := range []string{"--port proxy=", "--port backend=", "--sampler-arg 1", "--otlp=false", "\n\"\""} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("no %q in %s, %v", want, said, err)
		}
	}
	cancel()
	assert.NoError(t, <-ended, "interrupted")
	if !strings.Contains(out.b.String(), "page: http://"+o.Page+"/") || !strings.Contains(out.b.String(), "98.000%") {
		t.Errorf("printed %s", out.b.String())
	}
	check()
}

func TestPageThatDoesNotStart(t *testing.T) {
	needRoot(t)
	t.Setenv("PLAY_TRACES", "50")
	t.Setenv("PLAY_CRASH", "run")
	o := quick(t)
	check := nothingLeft(t)
	o.Page = "127.0.0.1:4680"
	err := Run(t.Context(), o, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), "--exit") {
		t.Errorf("%v", err)
	}
	check()
}

// Without tare-agent beside it, the demo says what is missing.
func TestNoAgentBeside(t *testing.T) {
	needRoot(t)
	o := quick(t)
	check := nothingLeft(t)
	require.NoError(t, os.Remove(o.Tare+"-agent"))
	err := Run(t.Context(), o, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "tare-agent is not beside") || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%v", err)
	}
	check()
}
