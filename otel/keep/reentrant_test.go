package keep_test

import (
	"context"
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tare-trace/tare/otel/keep"
)

// A next processor may end spans itself, as one does that exports at once with
// an instrumented client: no lock is held, and what is being handed over does
// not change although its trace is forgotten meanwhile and its memory reused.
func TestNextProcessorMayTrace(t *testing.T) {
	w, _, tracer := newWatched(t, sdktrace.NeverSample(), keep.Policy{Errors: true, MaxTraces: 1, MaxLate: 1})
	first := true
	w.onEnd = func() {
		if !first {
			return
		}
		first = false
		_, failing := tracer.Start(context.Background(), "other") // the first trace is no longer open
		fail(failing)
		failing.End()                                        // nor remembered
		ctx, _ := tracer.Start(context.Background(), "next") // has its memory
		for range 3 {
			_, s := tracer.Start(ctx, "buffered")
			s.End()
		}
	}
	ctx, root := tracer.Start(context.Background(), "root")
	for _, name := range []string{"a", "b", "c", "failing"} {
		_, s := tracer.Start(ctx, name)
		if name == "failing" {
			fail(s)
		}
		s.End()
	}
	fail(root)
	root.End()
	var names []string
	for _, s := range w.Ended() {
		names = append(names, s.Name())
	}
	if got, want := fmt.Sprint(names), "[other a b c failing root]"; got != want {
		t.Errorf("exported %s, want %s", got, want)
	}
}
