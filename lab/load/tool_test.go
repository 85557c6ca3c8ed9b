package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What the real tools wrote: against nginx, against a server that answers every
// tenth request with 503 and hangs up at every fiftieth, and against nobody.
func TestOutputsOfTheTools(t *testing.T) {
	const ms = time.Millisecond
	for file, want := range map[string]struct {
		ok, failed uint64
		elapsed    time.Duration
		errors     map[string]uint64
		quantiles  map[float64]time.Duration
	}{
		"hey.csv": {ok: 50, elapsed: 1009300 * time.Microsecond,
			quantiles: map[float64]time.Duration{0.5: 300 * time.Microsecond}},
		"hey-status.csv": {ok: 110, failed: 10, elapsed: 1 * time.Second,
			errors: map[string]uint64{"status 503": 10}},
		"wrk.txt": {ok: 131683, elapsed: 1000919 * time.Microsecond,
			quantiles: map[float64]time.Duration{0: 9 * time.Microsecond, 0.5: 24 * time.Microsecond, 0.95: 46 * time.Microsecond, 0.999: 2870 * time.Microsecond, 1: 3361 * time.Microsecond}},
		"wrk-errors.txt": {ok: 72649, failed: 8071, elapsed: 1000132 * time.Microsecond,
			errors: map[string]uint64{"read": 1612, "status above 399": 6459}, quantiles: map[float64]time.Duration{0.99: 393 * time.Microsecond}},
		"ab.txt": {ok: 5000, elapsed: 51 * ms,
			quantiles: map[float64]time.Duration{0: 10 * time.Microsecond, 0.5: 35 * time.Microsecond, 0.99: 124 * time.Microsecond, 1: 1503 * time.Microsecond}},
		"ab-status.txt": {ok: 4599, failed: 401, elapsed: 82 * ms,
			errors: map[string]uint64{"status not 2xx": 401}, quantiles: map[float64]time.Duration{0.5: 57 * time.Microsecond}},
		"ab-refused.txt": {failed: 1000, elapsed: 14 * ms,
			errors: map[string]uint64{"receive": 1000, "exceptions": 500}},
	} {
		t.Run(file, func(t *testing.T) {
			out, err := os.Open(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			dir := t.TempDir()
			var read func(*ToolOptions, string, io.Reader) (Result, error)
			switch file[:2] {
			case "he":
				read = readHey
			case "wr":
				read = readWrk
			case "ab":
				read = readAb
				table, err := os.ReadFile(filepath.Join("testdata", file[:len(file)-len("txt")]+"csv"))
				if err == nil {
					err = os.WriteFile(abTable(dir), table, 0o600)
				}
				if err != nil && want.ok > 0 {
					t.Fatal(err)
				}
			}
			r, err := read(&ToolOptions{Connections: 2, Duration: time.Second}, dir, out)
			if err != nil {
				t.Fatal(err)
			}
			if r.OK != want.ok || r.Failed != want.failed || r.Offered != want.ok+want.failed || !maps.Equal(r.Errors, want.errors) {
				t.Errorf("%+v", r)
			}
			if r.Elapsed < want.elapsed || r.Elapsed > want.elapsed+30*ms {
				t.Errorf("elapsed %v, want %v", r.Elapsed, want.elapsed)
			}
			for q, d := range want.quantiles {
				if got, ok := r.Quantile(q); !ok || got < d*999/1000 || got > d*1001/1000 {
					t.Errorf("quantile %v: %v %v, want %v", q, got, ok, d)
				}
			}
			if want.ok == 0 {
				if d, ok := r.Quantile(0.5); ok {
					t.Errorf("a median of nothing: %v", d)
				}
			}
		})
	}
}

func TestHeyWithoutAnAnswerIsAnError(t *testing.T) {
	out, err := os.Open(filepath.Join("testdata", "hey-refused.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	if r, err := readHey(&ToolOptions{Duration: time.Second}, "", out); err == nil {
		t.Errorf("%+v", r)
	}
}

func TestHeyThatMissesItsRateSaysSo(t *testing.T) {
	out, err := os.Open(filepath.Join("testdata", "hey.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	r, err := readHey(&ToolOptions{Duration: time.Second, Rate: 100}, "", out)
	if err != nil || r.Offered != 100 || len(r.Limits) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// haveTool skips where a tool is missing, except where it was to be installed.
func haveTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestToolsAreRun(t *testing.T) {
	for name := range tools {
		t.Run(name, func(t *testing.T) {
			haveTool(t, name)
			if err := ToolAvailable(name); err != nil {
				t.Error(err)
			}
			var asked, refused atomic.Uint64
			srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("Authorization") != "Bearer a b" || req.URL.Path != "/some/path" {
					refused.Add(1)
				}
				if asked.Add(1)%10 == 0 {
					http.Error(w, "no", http.StatusServiceUnavailable)
					return
				}
				time.Sleep(2 * time.Millisecond)
				hello(w, req)
			})
			r, err := RunTool(t.Context(), name, ToolOptions{
				URL: srv.URL + "/some/path", Connections: 3, Duration: time.Second,
				Header: map[string]string{"Authorization": "Bearer a b"},
			})
			if err != nil {
				t.Fatal(err)
			}
			total := r.OK + r.Failed
			// A tool may drop what is in flight at its end.
			if n := asked.Load(); total > n || total+3 < n || refused.Load() > 0 {
				t.Errorf("the server was asked %d times, %d of them wrongly; the tool says %d + %d", n, refused.Load(), r.OK, r.Failed)
			}
			if r.OK == 0 || r.Failed < total/10-1 || r.Failed > total/10+1 || len(r.Errors) != 1 {
				t.Errorf("%d answered, %d failed: %v", r.OK, r.Failed, r.Errors)
			}
			if r.Elapsed < time.Second {
				t.Errorf("elapsed %v", r.Elapsed)
			}
			last := time.Duration(0)
			for _, q := range []float64{0.5, 0.75, 0.9, 0.95, 0.99, 1} {
				d, ok := r.Quantile(q)
				if !ok || d < last || d < 2*time.Millisecond {
					t.Errorf("quantile %v: %v, %v", q, d, ok)
				}
				last = d
			}
			if _, ok := r.Quantile(0.123456); ok != (r.Latency != nil) {
				t.Error("a quantile that the tool did not report")
			}
		})
	}
}

func TestHeyKeepsARate(t *testing.T) {
	haveTool(t, "hey")
	srv := newRecorder(t, hello)
	r, err := RunTool(t.Context(), "hey", ToolOptions{URL: srv.URL, Connections: 4, Rate: 50, Duration: 2 * time.Second})
	if err != nil || r.Offered != 100 || r.OK > 104 || r.OK < 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestToolsThatFailSayWhy(t *testing.T) {
	srv := newRecorder(t, hello)
	good := ToolOptions{URL: srv.URL, Connections: 1, Duration: time.Second}
	srv.Close()
	for name := range tools {
		t.Run(name, func(t *testing.T) {
			haveTool(t, name)
			r, err := RunTool(t.Context(), name, good)
			if err == nil && (r.OK > 0 || r.Failed == 0) {
				t.Errorf("nobody listens: %+v", r)
			}
			asked := make(chan struct{}, 1)
			there := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
				select {
				case asked <- struct{}{}:
				default:
				}
				hello(w, req)
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			long := ToolOptions{URL: there.URL, Connections: 1, Duration: 100 * time.Second}
			if r, err := RunTool(ctx, name, long); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled under way: %+v, %v", r, err)
			}
			if r, err := RunTool(ctx, name, good); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %+v, %v", r, err)
			}
		})
	}
}

func TestToolOptionsThatCannotWork(t *testing.T) {
	good := ToolOptions{URL: "http://127.0.0.1:1/", Connections: 1, Duration: time.Second}
	for name, c := range map[string]struct {
		tool  string
		spoil func(*ToolOptions)
	}{
		"another tool":       {"siege", func(*ToolOptions) {}},
		"rate for wrk":       {"wrk", func(o *ToolOptions) { o.Rate = 10 }},
		"rate for ab":        {"ab", func(o *ToolOptions) { o.Rate = 10 }},
		"no scheme":          {"hey", func(o *ToolOptions) { o.URL = "127.0.0.1:80" }},
		"flag for a URL":     {"hey", func(o *ToolOptions) { o.URL = "-h" }},
		"https":              {"hey", func(o *ToolOptions) { o.URL = "https://127.0.0.1/" }},
		"no connections":     {"wrk", func(o *ToolOptions) { o.Connections = 0 }},
		"part of a second":   {"ab", func(o *ToolOptions) { o.Duration = 1500 * time.Millisecond }},
		"no duration":        {"hey", func(o *ToolOptions) { o.Duration = 0 }},
		"line in the header": {"wrk", func(o *ToolOptions) { o.Header = map[string]string{"A": "b\r\nC: d"} }},
		"empty header":       {"hey", func(o *ToolOptions) { o.Header = map[string]string{"A": " "} }},
	} {
		o := good
		c.spoil(&o)
		if _, err := RunTool(t.Context(), c.tool, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := ToolAvailable("siege"); err == nil {
		t.Error("a tool that nobody knows is available")
	}
	t.Setenv("PATH", t.TempDir())
	_, runErr := RunTool(t.Context(), "ab", good)
	for _, err := range []error{runErr, ToolAvailable("ab")} {
		if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "apt-get install apache2-utils") {
			t.Errorf("not installed: %v", err)
		}
	}
}

// sane holds whatever a tool may write.
func sane(t *testing.T, r Result) {
	t.Helper()
	if r.Elapsed < 0 || r.OK > 1<<60 || r.Failed > 1<<60 {
		t.Fatalf("%+v", r)
	}
	for _, q := range r.quantiles {
		if q.q < 0 || q.q > 1 || q.d < 0 {
			t.Fatalf("%+v", q)
		}
	}
	if r.Latency != nil && uint64(r.Latency.TotalCount()) != r.OK {
		t.Fatalf("%d latencies of %d", r.Latency.TotalCount(), r.OK)
	}
}

func addFiles(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzHey(f *testing.F) {
	addFiles(f, "hey*.csv")
	f.Fuzz(func(t *testing.T, in []byte) {
		if r, err := readHey(&ToolOptions{Duration: time.Second, Rate: 3}, "", bytes.NewReader(in)); err == nil {
			sane(t, r)
		}
	})
}

func FuzzWrk(f *testing.F) {
	addFiles(f, "wrk*.txt")
	f.Fuzz(func(t *testing.T, in []byte) {
		if r, err := readWrk(&ToolOptions{Duration: time.Second}, "", bytes.NewReader(in)); err == nil {
			sane(t, r)
		}
	})
}

func FuzzAb(f *testing.F) {
	addFiles(f, "ab*.txt")
	addFiles(f, "ab*.csv")
	f.Fuzz(func(t *testing.T, in []byte) {
		if r, err := abText(bytes.NewReader(in)); err == nil {
			sane(t, r)
		}
		if all, err := abPercentiles(bytes.NewReader(in)); err == nil {
			sane(t, Result{quantiles: all})
		}
	})
}
