package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// Log records are in the details of their span, by time; those of no span are in the first one's. What
// they say is only text.
func TestTraceLogs(t *testing.T) {
	now := time.Now()
	w := newWriter(3)
	id := w.trace(now, call{service: "shop", name: "GET /", kind: server, took: 9000, id: pcommon.SpanID{1}, calls: []call{
		{service: "shop", name: "charge", kind: internal, at: 1000, took: 5000, id: pcommon.SpanID{2}},
		{service: "shop", name: "thank", kind: internal, at: 7000, took: 1000, id: pcommon.SpanID{3}},
	}}, nil, "")
	base, s, end, err := serve(t.TempDir(), nil, w.td)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	sl := rl.ScopeLogs().AppendEmpty()
	say := func(span byte, at time.Duration, severity plog.SeverityNumber, body string) plog.LogRecord {
		r := sl.LogRecords().AppendEmpty()
		r.SetTraceID(id)
		r.SetSpanID(pcommon.SpanID{span})
		r.SetTimestamp(pcommon.NewTimestampFromTime(now.Add(at)))
		r.SetSeverityNumber(severity)
		r.Body().SetStr(body)
		return r
	}
	say(2, 3*time.Millisecond, plog.SeverityNumberError, hostileNames[0]).Attributes().PutStr("card", "declined")
	say(2, 2*time.Millisecond, plog.SeverityNumberInfo, "charging")
	say(0, time.Millisecond, plog.SeverityNumberInfo, "of no span")
	say(9, time.Millisecond, plog.SeverityNumberInfo, "of another span")
	if err := s.WriteLogs(t.Context(), ld); err != nil {
		t.Fatal(err)
	}

	p := open(t, base, "#/trace/"+id.String(), 1280, 900)
	p.wait("the waterfall is drawn", "document.querySelectorAll('.row:not([hidden])').length === 3")
	if head := p.text(".trace-head"); !strings.Contains(strings.ReplaceAll(head, "\u00a0", " "), "4 log records") {
		t.Errorf("the head is %q", head)
	}
	p.wait("the tree has the focus", "document.activeElement.matches('[role=tree]')")
	details := func(title string, keys string) string {
		t.Helper()
		p.key(keys)
		p.wait("the details of "+title, "document.querySelector('.details:not([hidden]) h2')?.textContent.includes('"+title+"') && document.querySelector('.details .details-rest h3')")
		return p.text(".details")
	}
	if got := details("GET /", kb.Home+kb.Enter); !strings.Contains(got, "of no span") || !strings.Contains(got, "of another span") || strings.Contains(got, "charging") {
		t.Errorf("the first span's details: %q", got)
	}
	got := details("charge", kb.ArrowDown)
	first, second := strings.Index(got, "charging"), strings.Index(got, hostileNames[0])
	if first < 0 || second < first || !strings.Contains(got, "at 3") || !strings.Contains(got, "declined") || strings.Contains(got, "of no span") {
		t.Errorf("the span's details: %q", got)
	}
	if severe := p.text(".logs .severe"); !strings.Contains(severe, "Error") {
		t.Errorf("the error is %q", severe)
	}
	if eval[bool](p, "window.hacked === 1 || document.querySelector('.logs img') !== null") {
		t.Error("a log record ran as markup")
	}
	if got := details("thank", kb.ArrowDown); strings.Contains(got, "LOGS") || strings.Contains(got, "Logs (") {
		t.Errorf("a span without records: %q", got)
	}
}
