package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every line of the service's logs names a span that the file has.
func TestExample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	var logs bytes.Buffer
	if err := run(t.Context(), path, &logs); err != nil {
		t.Fatal(err)
	}
	spans, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(spans, []byte{'\n'}); n != 6 { // two local roots of each order
		t.Errorf("%d lines: %s", n, spans)
	}
	lines := 0
	for line := range bytes.Lines(logs.Bytes()) {
		var record struct {
			TraceID string `json:"trace_id"`
			SpanID  string `json:"span_id"`
		}
		if err := json.Unmarshal(line, &record); err != nil || record.SpanID == "" ||
			!strings.Contains(string(spans), `"TraceId":"`+record.TraceID) || !strings.Contains(string(spans), `"SpanId":"`+record.SpanID) {
			t.Errorf("%s: %v", line, err)
		}
		lines++
	}
	if lines != 3 {
		t.Errorf("%d lines of logs", lines)
	}
}
