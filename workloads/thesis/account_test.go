package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
	"github.com/tare-trace/tare/workloads/planted"
)

// All values that are planted into requests leave the service in its spans, in both pipelines
// alike; with redaction, those that it finds do not.
func TestAccountRecordsWhatIsPlanted(t *testing.T) { bothPipelines(t, accountRecords) }

func accountRecords(t *testing.T, pipeline string) {
	const first, next = 1, 1 + 15 // each kind in each place
	for redact, want := range map[string]func(planted.Counts) bool{
		"false": func(c planted.Counts) bool {
			secrets, decoys := planted.Total(c.Secrets), planted.Total(c.Decoys)
			return secrets.Stored == secrets.Planted && decoys.Stored == decoys.Planted && secrets.Planted == (next-first)*len(planted.Places)
		},
		"true": func(c planted.Counts) bool {
			return c.Secrets["card"].Stored == 0 && c.Secrets["JWT"].Stored == 0 && c.Places[string(planted.SQL)].Stored == 0 &&
				c.Secrets["name"].Stored == len(planted.Places)-1 && c.Decoys["UUID"].Stored == c.Decoys["UUID"].Planted
		},
	} {
		r := servicetest.NewReceiver(t, "127.0.0.1")
		p := servicetest.Start(t, "thesis", traced(r, map[string]string{"PIPELINE": pipeline, "REDACT": redact}))
		for n := uint64(first); n < next; n++ {
			sendAccount(t, p.URL, n)
		}
		if status, body := p.Post("/api/account/7", strings.NewReader("{}")); status != http.StatusBadRequest || !contains(body, ".json") {
			t.Errorf("without a number: %d %s", status, body)
		}
		require.Equal(t, 0, p.Terminate(), "exit status")
		f := planted.NewFinder(first, next)
		for _, s := range r.Spans() {
			b, err := proto.Marshal(s.Span)
			require.NoError(t, err)
			f.Add(b)
		}
		if got := f.Counts(); got.Requests != next-first || got.Strays != 0 || !want(got) {
			t.Errorf("redaction %s: %+v", redact, got)
		}
	}
}

// sendAccount sends request n as the load generator does.
func sendAccount(t *testing.T, base string, n uint64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+string(planted.AppendPath(nil, n)), bytes.NewReader(planted.AppendBody(nil, n)))
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(planted.AppendHeader(nil, n))), "\r\n") {
		key, value, _ := strings.Cut(line, ": ")
		req.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("request %d: %s %s, %v", n, resp.Status, body, err)
	}
}
