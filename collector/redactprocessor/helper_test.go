package redactprocessor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run sends td through a processor of its own.
func run(t testing.TB, c *Config, td ptrace.Traces) ptrace.Traces {
	t.Helper()
	require.NoError(t, c.Validate())
	sink := new(consumertest.TracesSink)
	p, err := NewFactory().CreateTraces(context.Background(), processortest.NewNopSettings(Type), c, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	require.NoError(t, p.ConsumeTraces(context.Background(), td))
	require.NoError(t, p.Shutdown(context.Background()))
	return sink.AllTraces()[0]
}

func newRedactor(t testing.TB, c redact.Config) *redactor {
	t.Helper()
	r, err := redact.New(c)
	require.NoError(t, err)
	return &redactor{r}
}

// oneSpan is a message with one span, an event and a link.
func oneSpan() (ptrace.Traces, ptrace.Span) {
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.Events().AppendEmpty()
	s.Links().AppendEmpty()
	return td, s
}

// maps are the outermost maps of oneSpan, by name.
func maps(td ptrace.Traces) map[string]pcommon.Map {
	rs := td.ResourceSpans().At(0)
	ss := rs.ScopeSpans().At(0)
	s := ss.Spans().At(0)
	return map[string]pcommon.Map{
		"resource": rs.Resource().Attributes(),
		"scope":    ss.Scope().Attributes(),
		"span":     s.Attributes(),
		"event":    s.Events().At(0).Attributes(),
		"link":     s.Links().At(0).Attributes(),
	}
}

// texts are the texts of oneSpan that are no attributes, by name.
func texts(td ptrace.Traces) map[string]struct {
	set func(string)
	get func() string
} {
	rs := td.ResourceSpans().At(0)
	ss := rs.ScopeSpans().At(0)
	s := ss.Spans().At(0)
	e := s.Events().At(0)
	return map[string]struct {
		set func(string)
		get func() string
	}{
		"span name":       {s.SetName, s.Name},
		"status message":  {s.Status().SetMessage, s.Status().Message},
		"event name":      {e.SetName, e.Name},
		"scope name":      {ss.Scope().SetName, ss.Scope().Name},
		"scope version":   {ss.Scope().SetVersion, ss.Scope().Version},
		"scope schema":    {ss.SetSchemaUrl, ss.SchemaUrl},
		"resource schema": {rs.SetSchemaUrl, rs.SchemaUrl},
	}
}
