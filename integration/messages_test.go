package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// An agent that reports messages in place of spans, and a collector that makes spans of them: what is stored is the same as
// of an agent that reports spans, trace for trace, span for span, attribute for attribute.
func TestMessagesMakeTheSameTraces(t *testing.T) {
	t.Parallel()
	need(t)
	c := start(t, "shop") // proxy → shop → redis, memcached, stock
	const requests = 1000
	stored := func(args ...string) map[string]int {
		t.Helper()
		j := joinBefore(t, newSink(t))
		a := trace(t, j.sink, nil, append(args, ports(c)...)...)
		send(t, load.Options{Addr: c.Entry, Connections: 8, Requests: requests, AppendPath: c.AppendPath})
		j.joined(t, shapeOf(t, "shop"), requests, 0, a)
		built := int(j.metric("tare_tracer_built_spans_total"))
		if events := len(args) > 0; events && built != j.sink.count() || !events && built != 0 {
			t.Errorf("%d of %d spans were built of events, with %v", built, j.sink.count(), args)
		}
		a.Stop()
		return looks(j.sink.all())
	}
	spans, messages := stored(), stored("--events=only")
	if !maps.Equal(spans, messages) {
		for look, n := range spans {
			if messages[look] != n {
				t.Errorf("%d times of spans, %d times of messages:\n%s", n, messages[look], look)
				break
			}
		}
		t.Errorf("traces look in %d ways if spans are reported, in %d ways if messages are", len(spans), len(messages))
	}
}

// looks counts traces by how they look: their spans below each other, with all that is not of a connection, an instant or
// a message.
func looks(all []span.Span) map[string]int {
	traces := map[span.TraceID][]*span.Span{}
	for i := range all {
		traces[all[i].TraceID] = append(traces[all[i].TraceID], &all[i])
	}
	count := map[string]int{}
	for _, spans := range traces {
		below := map[span.ID][]*span.Span{}
		for _, s := range spans {
			below[s.Parent] = append(below[s.Parent], s)
		}
		count[look(below, span.ID{}, 0)]++
	}
	return count
}

func look(below map[span.ID][]*span.Span, parent span.ID, depth int) string {
	if depth > 20 {
		return "a cycle"
	}
	var lines []string
	for _, s := range below[parent] {
		var attrs []string
		for _, a := range s.Attrs {
			switch a.Key {
			case "network.peer.port", semconv.BytesSent, semconv.BytesReceived: // of the connection; answers tell the time
			default:
				attrs = append(attrs, a.Key+"="+a.Text())
			}
		}
		slices.Sort(attrs)
		lines = append(lines, fmt.Sprintf("%s%s %s %s %v %s\n%s", strings.Repeat(" ", depth), s.Kind, s.Resource.Service, s.Name, s.Status,
			strings.Join(attrs, " "), look(below, s.ID, depth+1)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
