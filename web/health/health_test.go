package health

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t testing.TB, name string) http.HandlerFunc {
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(b)
	}
}

func start(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestAgent(t *testing.T) {
	url := start(t, file(t, "agent.txt"))
	got := New([]string{url}).Read(t.Context())[0]
	want := &Agent{
		SamplingRatio: 0.01, Roots: Roots{10, 990, 300}, Retro: &Retro{Horizon: 12.5, Delay: 2, Kept: 7, Limited: 3}, Spans: 80, OpenSpans: 5,
		Lost: map[string]float64{"queue_full": 3, "ring_full": 0}, Unlinked: map[string]float64{"runtime": 1},
		TagsIgnored: map[string]float64{"untrusted": 2}, Connections: map[string]float64{"armed": 7, "unarmed": 0}, LeftOut: map[string]float64{"addresses": 5},
		Unanswered: []Peer{{"[fd00::2]:80", 400, true}, {"10.0.0.1:5432", 30, false}},
		Programs: []Program{
			{"tare_recv", "fentry/tcp_rcv_space_adjust", 3e6, 0.75, 250},
			{"tare_send", "fexit/tcp_sendmsg_locked", 1e6, 0.5, 500},
			{"tare_fork", "tp/sched_process_fork", 0, 0, 0},
		},
		Weight: Weight{CPU: 1.5, Memory: 4.2e7, Exported: 32000, Seconds: 20, Services: []ServiceWeight{{"shop", 4000, 0.01}, {"", 0, 0.004}}},
	}
	if !got.Up || got.Error != "" || got.URL != url || got.Collector != nil || !reflect.DeepEqual(got.Agent, want) {
		t.Errorf("got %+v\n%+v", got, got.Agent)
	}
	names := map[string]float64{}
	for _, m := range got.Metrics {
		names[m.Name] += m.Value
	}
	if _, ok := names["go_goroutines"]; ok || names["process_resident_memory_bytes"] != 4.2e7 ||
		names["tare_service_request_duration_seconds_count"] != 5 || names["tare_roots_total"] != 1300 {
		t.Errorf("listed are %v", names)
	}
}

func TestCollector(t *testing.T) {
	got := New([]string{start(t, file(t, "collector.txt"))}).Read(t.Context())[0]
	want := &Collector{
		AcceptedSpans: 750, RefusedSpans: 9, LateSpans: 8, ExportedSpans: 700, FailedSpans: 9, Queue: 5, DroppedTraces: 22,
		Traces: Traces{70, map[string]float64{"ends_at": 4}, map[string]float64{"server_missing": 6, "no_root,parent_missing": 1}},
		Kept:   map[string]float64{"error": 5, "share": 50},
	}
	if got.Agent != nil || !reflect.DeepEqual(got.Collector, want) {
		t.Errorf("got %+v\n%+v", got, got.Collector)
	}
	if b, err := json.Marshal(got); err != nil || strings.Contains(string(b), "share_probability") {
		t.Errorf("%s, %v", b, err) // NaN is not JSON
	}
}

// What the Prometheus library itself writes, and a program that is neither.
func TestNeither(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "something_total"})
	c.Add(3)
	reg.MustRegister(c)
	got := New([]string{start(t, promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}))}).Read(t.Context())[0]
	if !got.Up || got.Agent != nil || got.Collector != nil || len(got.Metrics) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestDown(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	block := make(chan struct{})
	slow := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(block) }) // before the server is closed
	for name, c := range map[string]struct{ url, want string }{
		"nobody listens": {closed.URL, "connection refused"},
		"too slow":       {slow, "did not answer within"},
		"500":            {start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })), "500"},
		"redirect":       {start(t, http.RedirectHandler("http://example.invalid/", http.StatusFound)), "302"},
		"a page":         {start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })), "no Prometheus text"},
		"endless": {start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for line := "# " + strings.Repeat("x", 1<<16) + "\n"; ; {
				if _, err := fmt.Fprint(w, line); err != nil {
					return
				}
			}
		})), "more than 4 MiB"},
		"no URL": {"127.0.0.1:9464", "no URL"},
	} {
		s := New([]string{c.url})
		s.timeout = time.Minute
		if name == "too slow" {
			s.timeout = 20 * time.Millisecond
		}
		got := s.Read(t.Context())
		if len(got) != 1 || got[0].Up || !strings.Contains(got[0].Error, c.want) || got[0].Metrics == nil {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

func TestAPasswordIsNotShown(t *testing.T) {
	for _, u := range []string{"http://me:secret@127.0.0.1:1/metrics", "me:secret@host", "http://me:secret@ bad"} {
		got := New([]string{u}).Read(t.Context())[0]
		if b, _ := json.Marshal(got); strings.Contains(string(b), "secret") {
			t.Errorf("%s", b)
		}
	}
}

func TestManyReadersCostOneReading(t *testing.T) {
	var reads atomic.Int32
	h := file(t, "agent.txt")
	s := New([]string{start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		h(w, r)
	}))})
	s.fresh = time.Hour
	done := make(chan bool)
	for range 20 {
		go func() { done <- s.Read(t.Context())[0].Up }()
	}
	for range 20 {
		if !<-done {
			t.Error("down")
		}
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
	s.fresh = 0
	s.Read(t.Context())
	if n := reads.Load(); n != 2 {
		t.Errorf("read %d times, want again after it is old", n)
	}
}

func TestCheck(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://127.0.0.1:9464/metrics": true, "https://host/x": true, "": false, "127.0.0.1:9464": false,
		"file:///etc/passwd": false, "http://": false, "ftp://host": false, "http://%zz": false,
	} {
		if err := Check(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func FuzzGroup(f *testing.F) {
	for _, name := range []string{"agent.txt", "collector.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("tare_roots_total{sampled=\"\xff\"} NaN\ntare_bpf_program_runs_total +Inf\n")
	f.Fuzz(func(t *testing.T, text string) {
		families, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		var s Source
		s.group(families)
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
