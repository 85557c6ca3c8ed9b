package integration

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tare-trace/tare/internal/testkit"
)

// 150 spans whose services and operations have names of 900 KB, beside ordinary traces: every query of the page is
// answered, with little to read, and memory stays within the limit. A span without an id is rejected, and its sender told.
func TestCollectorBoundsNames(t *testing.T) {
	t.Parallel()
	const limit, hostile, traces = 512, 150, 20 // MiB, spans, traces of 5
	s := storeIn(t, t.TempDir(), "--set", "processors.memory_limiter.limit_mib="+itoa(limit),
		"--set", "processors.memory_limiter.spike_limit_mib="+itoa(limit/4))
	post := func(td ptrace.Traces) (code int, answer ptraceotlp.ExportResponse) {
		body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.http+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-protobuf")
		res, err := scraper.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer = ptraceotlp.NewExportResponse()
		if res.StatusCode == http.StatusOK {
			if err := answer.UnmarshalProto(text); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
		return res.StatusCode, answer
	}
	sender := dialOTLP(t, s.otlp, nil)
	for i := range uint64(traces) {
		testkit.Until(t, deadline, "a trace is taken", func() bool { return export(t.Context(), sender, someTraces(7+i, 1, 5)) == nil })
	}
	long, now := strings.Repeat("n", 900_000), pcommon.NewTimestampFromTime(time.Now())
	for from := 0; from < hostile; from += 10 {
		td := ptrace.NewTraces()
		for i := from; i < from+10; i++ {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr("service.name", long+strconv.Itoa(i))
			sp := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			sp.SetTraceID(pcommon.TraceID{0xaa, byte(i + 1)})
			sp.SetSpanID(pcommon.SpanID{byte(i + 1)})
			sp.SetName(long + strconv.Itoa(i))
			sp.SetStartTimestamp(now)
			sp.SetEndTimestamp(now + 1000)
		}
		testkit.Until(t, deadline, "the names are taken", func() bool {
			code, _ := post(td)
			if code != http.StatusOK && code != http.StatusServiceUnavailable { // busy: as SDKs do
				t.Fatalf("refused: %d", code)
			}
			return code == http.StatusOK
		})
	}
	s.awaitSpans(t, hostile+traces*5)

	for _, path := range []string{"services", "operations?service=shop", "traces?last=1h", "overview?last=1h", "map?last=1h"} {
		begin := time.Now()
		res, err := scraper.Get("http://" + s.page + "/api/v1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || len(text) > 2<<20 {
			t.Errorf("%s: %d, %d bytes, %v: %.200s", path, res.StatusCode, len(text), err, text)
		}
		if path == "services" && bytes.Count(text, []byte("…#")) != hostile {
			t.Errorf("%d different services of %d: %.200s", bytes.Count(text, []byte("…#")), hostile, text)
		}
		t.Logf("%s: %d bytes in %v", path, len(text), time.Since(begin).Round(time.Millisecond))
	}
	if n := s.labelled("tare_receiver_cut", `what="name"`) + s.labelled("tare_receiver_cut_total", `what="name"`); n < 2*hostile {
		t.Errorf("%v names are counted as cut, want %d", n, 2*hostile)
	}
	most := peak(t, s.Cmd.Process.Pid)
	t.Logf("%.0f MiB at most", most)
	if most > 1.2*limit {
		t.Errorf("%.0f MiB at most, limit %d", most, limit)
	}

	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetTraceID(pcommon.TraceID{1})
	code, answer := post(td)
	if code != http.StatusOK || answer.PartialSuccess().RejectedSpans() != 1 || answer.PartialSuccess().ErrorMessage() == "" {
		t.Errorf("a span without an id: %d, %d rejected", code, answer.PartialSuccess().RejectedSpans())
	}
}
