package rootcause

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
	"github.com/tare-trace/tare/store"
)

// A diagnosis is the same with traces among the others that were kept retroactively, and says how many there are.
func TestRetroIsLeftOut(t *testing.T) {
	diagnosed := func(among bool) Diagnosis {
		s, err := store.Open(store.Options{Dir: t.TempDir(), NoSync: true})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		r := seeded(9)
		a, _ := chain()
		bad, _ := chain()
		added := NewSet()
		for range 600 {
			q := newRequest(r)
			q.serve(a, pcommon.SpanID{}, 0)
			require.NoError(t, s.Write(t.Context(), q.td))
			added.Add(q.td)
		}
		mark := seeded(10)
		for range 100 {
			q := newRequest(mark)
			q.serve(bad, pcommon.SpanID{}, 0)
			for _, rs := range q.td.ResourceSpans().All() {
				for _, x := range rs.ScopeSpans().At(0).Spans().All() {
					x.Attributes().PutBool(semconv.Retro, true)
					x.Status().SetCode(ptrace.StatusCodeError)
					x.SetEndTimestamp(x.EndTimestamp() + pcommon.Timestamp(time.Second))
				}
			}
			if among {
				require.NoError(t, s.Write(t.Context(), q.td))
				added.Add(q.td)
			}
		}
		// As many as there are others: those that do not count take no place.
		read := NewSet()
		require.NoError(t, read.Read(t.Context(), s, store.Query{}, 600, time.Time{}))
		d := read.Diagnose(Share)
		fromFiles := added.Diagnose(Share)
		d.More = false
		assert.Equal(t, fromFiles.Retro, d.Retro)
		assert.Equal(t, fromFiles.Entries[0].Requests, d.Entries[0].Requests)
		return d
	}
	want, got := diagnosed(false), diagnosed(true)
	assert.Equal(t, 100, got.Retro)
	assert.Equal(t, 600, got.Traces)
	var text bytes.Buffer
	require.NoError(t, Print(&text, got))
	assert.Contains(t, text.String(), "100 traces left out that were kept retroactively")
	got.Retro = 0
	a, err := json.Marshal(want)
	require.NoError(t, err)
	b, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Equal(t, string(a), string(b))

	only := NewSet()
	q := newRequest(seeded(1))
	root, _ := chain()
	q.serve(root, pcommon.SpanID{}, 0)
	q.td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().PutBool(semconv.Retro, true)
	only.Add(q.td)
	text.Reset()
	require.NoError(t, Print(&text, only.Diagnose(Share)))
	if s := text.String(); !strings.Contains(s, "1 trace left out") || strings.Contains(s, "no trace matches") {
		t.Error(s)
	}
}
