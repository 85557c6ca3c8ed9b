package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-trace/tare/internal/testkit"
)

// A service with lean's exporter of log files and slog: its traces are read from the file alone, and the
// logs of a request name its trace.
func TestLogFiles(t *testing.T) {
	t.Parallel()
	need(t, "go")
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	cmd := exec.Command(program("go"), "run", "./docs/examples/logs", path)
	cmd.Dir = absolute("..")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	failed := ""
	for line := range strings.Lines(string(said)) {
		var record struct {
			Level   string
			TraceID string `json:"trace_id"`
		}
		if json.Unmarshal([]byte(line), &record) == nil && record.Level == "ERROR" {
			failed = record.TraceID
		}
	}
	tree := output(t, tare, "logs", "--failed", path)
	if !strings.HasPrefix(tree, "trace "+failed+"  4 spans") || strings.Count(tree, "trace ") != 1 ||
		!strings.Contains(tree, "internal charge (error)") || strings.Contains(tree, "missing") {
		t.Errorf("of trace %s: %s", failed, tree)
	}
	if all := output(t, tare, "logs", "--all", path); strings.Count(all, "trace ") != 3 || strings.Count(all, "server ") != 3 {
		t.Errorf("all: %s", all)
	}
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(out)
}

// The default configuration keeps log records that came by gRPC and HTTP beside their trace, also over
// kill -9, without secrets; records without a trace are counted. tare_log writes what is stored.
func TestCollectorLogs(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "spans.jsonl")
	config := filepath.Join(t.TempDir(), "log.yaml")
	if err := os.WriteFile(config, []byte("exporters: {tare_log: {path: "+file+"}}\nservice: {pipelines: {traces: {exporters: [tare_store, tare_log]}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	standard := filepath.Join(t.TempDir(), "default.yaml")
	if err := os.WriteFile(standard, []byte(output(t, tare, "collector", "print-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := storeIn(t, dir, "--config", standard, "--config", config)
	deliver(t, dialOTLP(t, s.otlp, nil), someTraces(5, 1, 3))
	conn, err := grpc.NewClient(s.otlp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ld := plog.NewLogs()
	list := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	record := func(trace pcommon.TraceID, body string) {
		r := list.AppendEmpty()
		r.SetTraceID(trace)
		r.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		r.SetSeverityNumber(plog.SeverityNumberWarn)
		r.Body().SetStr(body)
	}
	trace := pcommon.TraceID{7: 5, 15: 1}
	record(trace, "by grpc, password=correct-horse")
	record(pcommon.TraceID{}, "of no trace")
	if _, err := plogotlp.NewGRPCClient(conn).Export(t.Context(), plogotlp.NewExportRequestFromLogs(ld)); err != nil {
		t.Fatal(err)
	}
	resp, err := noProxy.Post("http://"+s.http+"/v1/logs", "application/json", strings.NewReader(fmt.Sprintf(
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"%d","traceId":"%s","body":{"stringValue":"by http"}}]}]}]}`, time.Now().UnixNano(), trace)))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	s.awaitSpans(t, 3)
	testkit.Until(t, deadline, "the record without a trace is counted", func() bool {
		return s.labelled("tare_store_dropped_logs", `reason="no_trace"`) == 1 && s.metric("tare_store_logs") == 2
	})
	testkit.Until(t, deadline, "the spans are in the file", func() bool {
		return s.metric("tare_log_written_spans") == 3
	})
	if tree := output(t, tare, "logs", "--trace", trace.String(), file); !strings.HasPrefix(tree, "trace "+trace.String()+"  3 spans") {
		t.Errorf("the file has %s", tree)
	}
	s.Kill()
	s = storeIn(t, dir)
	var got struct {
		Logs []struct{ Severity, Body string }
	}
	if err := s.get("/api/v1/traces/"+trace.String(), &got); err != nil || len(got.Logs) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if first := got.Logs[0]; first.Severity != "Warn" || !strings.HasPrefix(first.Body, "by grpc") || strings.Contains(first.Body, "horse") || got.Logs[1].Body != "by http" {
		t.Errorf("%+v", got.Logs)
	}
}
