package storecommand

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
)

// What is on the disk and shown by no query is told by info, with why.
func TestInfoTellsTheRetention(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(store.Options{Dir: dir, MaxAge: 48 * time.Hour, Services: map[string]time.Duration{"pay*": 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "payments")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for i, age := range []time.Duration{30 * time.Hour, time.Hour} { // together, so that the old one stays
		sp := spans.AppendEmpty()
		sp.SetTraceID([16]byte{1})
		sp.SetSpanID([8]byte{byte(i + 1)})
		sp.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Now().Add(-age)))
	}
	if err := s.Write(t.Context(), td); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Trace(t.Context(), [16]byte{1}); err != nil || got.SpanCount() != 1 {
		t.Errorf("%d spans, %v", got.SpanCount(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "info", dir)
	for _, want := range []string{"2, of 1 traces", "2d\n", "1d, of services pay*", "1 of these spans: no query shows them", "sound"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s, %v; want %q", out, err, want)
		}
	}
	if out, err := run(t, "info", "--json", dir); err != nil || !strings.Contains(out, `"pay*": "1d"`) || !strings.Contains(out, `"overdue_spans": 1`) {
		t.Errorf("%s, %v", out, err)
	}
}
