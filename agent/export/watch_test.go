package export

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// logged is a log that a test reads while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(l.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in\n%s", text, l)
		}
	}
}

// The receiver is away at first, comes, and goes again.
func TestWatch(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r, log := newReceiver(t, protocol), &logged{}
			cfg := testConfig(r, &losses{})
			cfg.Log = slog.New(slog.NewTextHandler(log, nil))
			e := newExporter(t, cfg)
			e.reach.first, e.reach.slow = time.Millisecond, time.Millisecond
			ctx, cancel := context.WithCancel(t.Context())
			watching := make(chan struct{})
			go func() { defer close(watching); e.Watch(ctx) }()
			defer func() { cancel(); <-watching }()

			log.until(t, "does not accept spans")
			if err := e.Reachable(); err == nil || !strings.Contains(err.Error(), r.url()) {
				t.Errorf("reachable while there is none: %v", err)
			}
			log.until(t, "asked_again_in=2ms")
			r.start(t)
			log.until(t, "the receiver answers")
			if err := e.Reachable(); err != nil {
				t.Error(err)
			}
			for _, want := range []string{r.url(), "protocol=" + protocol, "asked_again_in=1ms"} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %q in\n%s", want, log)
				}
			}
			before := strings.Count(log.String(), "does not accept spans")
			r.stop()
			e.Export(testSpans(1, nil))
			go func() { _ = e.Flush(ctx) }()
			testkit.Until(t, 30*time.Second, "the log says that the receiver went", func() bool {
				return strings.Count(log.String(), "does not accept spans") > before
			})
			if e.Reachable() == nil {
				t.Error("reachable although it went")
			}
		})
	}
}

// A receiver that refuses requests without spans, and takes others, answers.
func TestBatchIsAnAnswer(t *testing.T) {
	r, log := newReceiver(t, HTTPProtobuf), &logged{}
	r.start(t)
	cfg := testConfig(r, &losses{})
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	e := newExporter(t, cfg)
	e.reach.answered(context.DeadlineExceeded)
	e.reach.asking = func(context.Context) error { return errRefused }
	ctx, cancel := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() { defer close(watching); e.Watch(ctx) }()
	defer func() { cancel(); <-watching }()
	log.until(t, "does not accept spans")
	for e.Reachable() != nil { // a batch may be taken before Watch looks for one
		e.Export(testSpans(1, nil))
		mustFlush(t, e)
	}
	log.until(t, "the receiver answers")
}

// The log is told at widening intervals: 5 s, 10 s, … up to 5 min.
func TestWatchWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		cfg, err := Config{Loss: &losses{}, Log: slog.New(slog.NewTextHandler(log, nil))}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		e := start(t.Context(), cfg, &scripted{upload: fine})
		e.reach.asking = func(context.Context) error { return errBusy }
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		go e.Watch(ctx)
		for _, c := range []struct {
			after time.Duration
			lines int
		}{{0, 1}, {5 * time.Second, 2}, {15 * time.Second, 3}, {time.Hour, 17}} {
			time.Sleep(time.Until(begun.Add(c.after)))
			synctest.Wait()
			if n := strings.Count(log.String(), "does not accept spans"); n != c.lines {
				t.Errorf("after %v %d lines, want %d", c.after, n, c.lines)
			}
		}
		cancel()
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
