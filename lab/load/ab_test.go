package load

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What ab wrote: against nginx, against a server that answers every tenth request
// with 503, and against nobody.
func TestOutputsOfAb(t *testing.T) {
	const ms = time.Millisecond
	for file, want := range map[string]struct {
		ok, failed uint64
		elapsed    time.Duration
		errors     map[string]uint64
		quantiles  map[float64]time.Duration
	}{
		"ab.txt": {ok: 5000, elapsed: 51 * ms,
			quantiles: map[float64]time.Duration{0: 10 * time.Microsecond, 0.5: 35 * time.Microsecond, 0.99: 124 * time.Microsecond, 1: 1503 * time.Microsecond}},
		"ab-status.txt": {ok: 4599, failed: 401, elapsed: 82 * ms,
			errors: map[string]uint64{"status not 2xx": 401}, quantiles: map[float64]time.Duration{0.5: 57 * time.Microsecond}},
		"ab-refused.txt": {failed: 1000, elapsed: 14 * ms,
			errors: map[string]uint64{"receive": 1000, "exceptions": 500}},
	} {
		t.Run(file, func(t *testing.T) {
			out, err := os.Open(filepath.Join("testdata", file))
			require.NoError(t, err)
			defer func() { _ = out.Close() }()
			dir := t.TempDir()
			table, err := os.ReadFile(filepath.Join("testdata", file[:len(file)-len("txt")]+"csv"))
			if err == nil {
				err = os.WriteFile(abTable(dir), table, 0o600)
			}
			if err != nil && want.ok > 0 {
				t.Fatal(err)
			}
			r, err := readAb(1, dir, out)
			require.NoError(t, err)
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

// haveAb skips where ab is missing, except where it was to be installed.
func haveAb(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ab"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func abOptions(srv *recorder) Options {
	return Options{
		Addr: srv.Listener.Addr().String(), Connections: 3, First: 7,
		AppendPath: func(dst []byte, n uint64) []byte { return strconv.AppendUint(append(dst, "/some/"...), n, 10) },
	}
}

func pause(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// Both drivers are asked for two intervals: every answer is counted in one of
// them, or in the whole run alone.
func TestDriversSendIntervals(t *testing.T) {
	for name, driver := range drivers {
		t.Run("driver "+name, func(t *testing.T) {
			if name == "ab" {
				haveAb(t)
			}
			var asked, refused atomic.Uint64
			srv := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
				n, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/some/"))
				if req.Header.Get("Authorization") != "Bearer a b" || err != nil || n != 7 && !driver.CanNumber() {
					refused.Add(1)
				}
				if asked.Add(1)%10 == 0 {
					http.Error(w, "no", http.StatusServiceUnavailable)
					return
				}
				time.Sleep(2 * time.Millisecond)
				hello(w, req)
			})
			opts := abOptions(srv)
			opts.Header = map[string]string{"Authorization": "Bearer a b"}
			s, err := driver.Start(t.Context(), opts)
			require.NoError(t, err)
			var parts [2]Result
			for i := range parts {
				if parts[i], err = s.Interval(t.Context(), time.Second, pause(time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			whole, err := s.Finish()
			require.NoError(t, err)
			total := whole.OK + whole.Failed
			// What is in flight at an end may be dropped.
			if n := asked.Load(); total > n || total+6 < n || refused.Load() > 0 {
				t.Errorf("the server was asked %d times, %d of them wrongly; the driver says %d + %d", n, refused.Load(), whole.OK, whole.Failed)
			}
			// On a busy machine, some are answered before the first interval and after the last.
			if sum := parts[0].OK + parts[1].OK; sum > whole.OK || sum < whole.OK*9/10 || whole.Next <= opts.First {
				t.Errorf("%d answers in two intervals, %d in all; the next request is %d", sum, whole.OK, whole.Next)
			}
			for _, r := range parts {
				if r.OK == 0 || r.Failed == 0 || len(r.Errors) != 1 {
					t.Errorf("%d answered, %d failed: %v", r.OK, r.Failed, r.Errors)
				}
				assert.GreaterOrEqual(t, r.Elapsed, time.Second, "elapsed")
				last := time.Duration(0)
				for _, q := range []float64{0.5, 0.75, 0.9, 0.95, 0.99, 1} {
					d, ok := r.Quantile(q)
					if !ok || d < last || d < 2*time.Millisecond {
						t.Errorf("quantile %v: %v, %v", q, d, ok)
					}
					last = d
				}
				if _, ok := r.Quantile(0.123456); ok != (r.Latency != nil) {
					t.Error("a quantile that ab did not report")
				}
			}
		})
	}
}

func TestAbThatFailsSaysWhy(t *testing.T) {
	haveAb(t)
	srv := newRecorder(t, hello)
	gone := abOptions(srv)
	srv.Close()
	s, err := ab{}.Start(t.Context(), gone)
	require.NoError(t, err)
	if r, err := s.Interval(t.Context(), time.Second, pause(time.Second)); err == nil && (r.OK > 0 || r.Failed == 0) {
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
	if s, err = (ab{}).Start(ctx, abOptions(there)); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"under way", "before"} {
		if r, err := s.Interval(ctx, 100*time.Second, pause(100*time.Second)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled %s: %+v, %v", when, r, err)
		}
	}
	if s, err = (ab{}).Start(t.Context(), abOptions(there)); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("it failed")
	if _, err := s.Interval(t.Context(), time.Second, func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("what ran meanwhile failed: %v", err)
	}
}

func TestAbOptionsThatCannotWork(t *testing.T) {
	good := abOptions(newRecorder(t, hello))
	for name, spoil := range map[string]func(*Options){
		"a rate":               func(o *Options) { o.Rate = 10 },
		"a number of requests": func(o *Options) { o.Requests = 10 },
		"a body":               func(o *Options) { o.BodySize = 10 },
		"no connections":       func(o *Options) { o.Connections = 0 },
		"line in the header":   func(o *Options) { o.Header = map[string]string{"A": "b\r\nC: d"} },
		"empty header":         func(o *Options) { o.Header = map[string]string{"A": " "} },
	} {
		o := good
		spoil(&o)
		if _, err := (ab{}).Start(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Find("siege"); err == nil || !strings.Contains(err.Error(), "there are ab;") {
		t.Errorf("a driver that there is none of: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := (ab{}).Start(t.Context(), good); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "apt-get install apache2-utils") {
		t.Errorf("not installed: %v", err)
	}
}

// sane holds whatever ab may write.
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
}

func addFiles(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
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
