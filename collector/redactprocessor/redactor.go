package redactprocessor

import (
	"context"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata"

	"github.com/tare-trace/tare/otel/redact"
	"github.com/tare-trace/tare/span/text"
)

// redactor redacts OTLP data in place and writes only what changes.
type redactor struct{ rules *redact.Redactor }

func (r *redactor) process(_ context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	for _, rs := range td.ResourceSpans().All() {
		r.attributes(rs.Resource().Attributes(), 0)
		r.text(rs.SchemaUrl(), rs.SetSchemaUrl)
		for _, ss := range rs.ScopeSpans().All() {
			r.scope(ss.Scope(), ss.SchemaUrl(), ss.SetSchemaUrl)
			for _, s := range ss.Spans().All() {
				r.span(s)
			}
		}
	}
	return td, nil
}

func (r *redactor) processLogs(_ context.Context, ld plog.Logs) (plog.Logs, error) {
	body := r.rules.Key("body")
	for _, rl := range ld.ResourceLogs().All() {
		r.attributes(rl.Resource().Attributes(), 0)
		r.text(rl.SchemaUrl(), rl.SetSchemaUrl)
		for _, sl := range rl.ScopeLogs().All() {
			r.scope(sl.Scope(), sl.SchemaUrl(), sl.SetSchemaUrl)
			for _, record := range sl.LogRecords().All() {
				r.value(body, record.Body(), 0)
				r.text(record.SeverityText(), record.SetSeverityText)
				r.text(record.EventName(), record.SetEventName)
				r.attributes(record.Attributes(), 0)
			}
		}
	}
	return ld, nil
}

func (r *redactor) scope(scope pcommon.InstrumentationScope, schema string, setSchema func(string)) {
	r.text(schema, setSchema)
	r.text(scope.Name(), scope.SetName)
	r.text(scope.Version(), scope.SetVersion)
	r.attributes(scope.Attributes(), 0)
}

func (r *redactor) span(s ptrace.Span) {
	r.text(s.Name(), s.SetName)
	r.text(s.Status().Message(), s.Status().SetMessage)
	r.attributes(s.Attributes(), 0)
	for _, e := range s.Events().All() {
		r.text(e.Name(), e.SetName)
		r.attributes(e.Attributes(), 0)
	}
	for _, l := range s.Links().All() {
		r.attributes(l.Attributes(), 0)
	}
}

// text redacts a string that has no key.
func (r *redactor) text(s string, set func(string)) {
	if s == "" {
		return
	}
	if out := redacted(s, r.rules.Text); out != s {
		set(out)
	}
}

// redacted redacts a text. Of one that a receiver has cut, what may be the beginning of a secret is removed: without
// its end it would not be found.
func redacted(s string, redact func(string) string) string {
	kept, mark := text.Split(s)
	if mark == "" {
		return redact(s)
	}
	return text.Finished(redact(kept)) + mark
}

// attributes redacts a map; the outermost is at depth 0.
func (r *redactor) attributes(m pcommon.Map, depth int) {
	renamed := false
	m.RemoveIf(func(name string, v pcommon.Value) bool {
		k := r.rules.Key(name)
		if !k.Leaves(depth == 0) {
			return true
		}
		r.value(k, v, depth)
		renamed = renamed || k.Name() != name
		return false
	})
	if renamed {
		r.rename(m)
	}
}

// rename rebuilds a map with its keys redacted.
func (r *redactor) rename(m pcommon.Map) {
	var b xpdata.MapBuilder
	b.EnsureCapacity(m.Len())
	used := make(map[string]int, m.Len()) // how often each name occurs
	for name, v := range m.All() {
		v.MoveTo(b.AppendEmpty(unique(used, r.rules.Key(name).Name())))
	}
	b.UnsafeIntoMap(m)
}

// unique returns the name, with a number appended if it is taken.
func unique(used map[string]int, name string) string {
	free := name
	for used[free] > 0 {
		used[name]++
		free = name + "." + strconv.Itoa(used[name])
	}
	used[free]++
	return free
}
