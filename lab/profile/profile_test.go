package profile

import (
	"bytes"
	"context"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	google "github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/lab/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// captured is a profile of testdata/service.
func captured(t testing.TB, name string) *Profile {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".pb.gz")
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	p, err := Read(f)
	require.NoError(t, err)
	return p
}

// cpuOf is the time of all samples together.
func cpuOf(p *Profile) (sum time.Duration) {
	for _, s := range p.raw.Sample {
		sum += p.cpu(s)
	}
	return sum
}

// made is a profile of stacks, each with one sample of a millisecond.
func made(stacks ...string) *google.Profile {
	p := &google.Profile{
		SampleType: []*google.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
	}
	functions := map[string]*google.Location{}
	for _, s := range stacks {
		sample := &google.Sample{Value: []int64{1, int64(time.Millisecond)}}
		for name := range strings.SplitSeq(s, " < ") {
			l := functions[name]
			if l == nil {
				f := &google.Function{ID: uint64(len(p.Function) + 1), Name: name}
				l = &google.Location{ID: f.ID, Line: []google.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, l)
				functions[name] = l
			}
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func reread(t testing.TB, p *google.Profile) *Profile {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	out, err := Read(&b)
	require.NoError(t, err)
	return out
}

func by(shares []record.Share) map[string]float64 {
	m := map[string]float64{}
	for _, s := range shares {
		m[s.Category] = s.Micros
	}
	return m
}

func total(shares []record.Share) (sum float64) {
	for _, s := range shares {
		sum += s.Micros
	}
	return sum
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// What a real service with otelhttp and redisotel uses, and the same one without.
func TestSharesOfARealService(t *testing.T) {
	plain, traced := captured(t, "plain"), captured(t, "traced")
	const requests = 1000
	without, with := Shares(plain, requests), Shares(traced, requests)
	for i, s := range with {
		assert.Equal(t, Categories[i], s.Category, "%d", i)
	}
	if !near(total(with), float64(cpuOf(traced).Microseconds())/requests) || !near(total(without), float64(cpuOf(plain).Microseconds())/requests) {
		t.Errorf("the sum is not the CPU time: %v of %v, %v of %v", total(with), cpuOf(traced), total(without), cpuOf(plain))
	}
	w, wo := by(with), by(without)
	for _, c := range []string{SpanPipeline, HTTPInstrumentation, RedisInstrumentation} {
		assert.EqualValues(t, 0, wo[c], "untraced, %s", c)
		if w[c] < 0.03*total(with) {
			t.Errorf("traced, %s: %v of %v", c, w[c], total(with))
		}
	}
	for _, c := range []string{RedisClient, HTTPServer, Scheduler, GarbageCollection} {
		if wo[c] == 0 || w[c] == 0 {
			t.Errorf("%s: %v without, %v with", c, wo[c], w[c])
		}
	}
	if w[Other] > 0.02*total(with) || wo[Other] > 0.02*total(without) {
		t.Errorf("no rule for %v of %v and %v of %v", w[Other], total(with), wo[Other], total(without))
	}
	assert.Nil(t, Shares(traced, 0), "shares without a request")
}

// Fetch from a live service, which collects garbage and serves.
func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/work", func(w http.ResponseWriter, _ *http.Request) {
		var kept [][]*int
		for range 200 {
			many := make([]*int, 1000)
			for i := range many {
				many[i] = new(int)
			}
			kept = append(kept, many)
		}
		_, _ = w.Write(make([]byte, len(kept)))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close
	}()
	defer func() {
		assert.NoError(t, server.Close())
		<-served
	}()
	base := "http://" + listener.Addr().String()

	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan uint64)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		var n uint64
		for ctx.Err() == nil {
			resp, err := client.Get(base + "/work")
			if err != nil {
				t.Error(err)
				break
			}
			resp.Body.Close()
			n++
		}
		asked <- n
	}()
	p, err := Fetch(t.Context(), base+"/debug/pprof/profile", 1500*time.Millisecond)
	cancel()
	requests := <-asked
	require.NoError(t, err)
	// Rounded up to 2 s; the profile counts from when its goroutine begins to run.
	if d := time.Duration(p.raw.DurationNanos); d < 1800*time.Millisecond || cpuOf(p) <= 0 {
		t.Errorf("%v of CPU in %v", cpuOf(p), d)
	}
	shares := Shares(p, requests)
	if m := by(shares); m[Other] == 0 || m[GarbageCollection] == 0 { // this package is no application
		t.Errorf("%v", m)
	}
	if !near(total(shares)*float64(requests), float64(cpuOf(p))/1e3) {
		t.Errorf("%v µs of %v", total(shares)*float64(requests), cpuOf(p))
	}
	// What was fetched can be kept.
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	if again, err := Read(&b); err != nil || !slices.Equal(Shares(again, requests), Shares(p, requests)) {
		t.Errorf("after writing and reading: %v", err)
	}

	if _, err := Fetch(t.Context(), base+"/nothing", time.Second); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := Fetch(t.Context(), base+"/work", time.Second); err == nil {
		t.Error("of an answer that is no profile: no error")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(done, base+"/debug/pprof/profile", time.Hour); err == nil {
		t.Error("cancelled: no error")
	}
	if _, err := Fetch(t.Context(), "://", time.Second); err == nil {
		t.Error("no address: no error")
	}
}

func TestReadRefuses(t *testing.T) {
	var heap, hours bytes.Buffer
	h := made("main.main")
	h.SampleType[1] = &google.ValueType{Type: "inuse_space", Unit: "bytes"}
	require.NoError(t, h.Write(&heap))
	h.SampleType[1] = &google.ValueType{Type: "cpu", Unit: "hours"}
	require.NoError(t, h.Write(&hours))
	for name, in := range map[string]string{
		"empty": "", "text": "hello", "gzip of nothing": "\x1f\x8b", "heap profile": heap.String(), "hours": hours.String(),
	} {
		if _, err := Read(strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPackages(t *testing.T) {
	p := reread(t, made("main.work < main.main", "net/http.x < main.main", "a.b/c.D < main.main", "a.b/c.E < main.main", "memmove < main.main"))
	got := Packages(p, 2) // 0.5 ms per sample
	want := []record.Share{{Category: NoFunction, Micros: 500}, {Category: "a.b/c", Micros: 1000}, {Category: "main", Micros: 500}, {Category: "net/http", Micros: 500}}
	assert.Equal(t, want, got)
	assert.Nil(t, Packages(p, 0), "something of nothing")
	of := func(p *Profile) (micros float64) {
		for _, s := range Packages(p, 1000) {
			if strings.HasPrefix(s.Category, "go.opentelemetry.io/") {
				micros += s.Micros
			}
		}
		return micros
	}
	if plain, traced := of(captured(t, "plain")), of(captured(t, "traced")); plain != 0 || traced == 0 {
		t.Errorf("%v µs without tracing, %v with it", plain, traced)
	}
}

// The sum over the categories is the CPU time, whatever the stacks are.
func FuzzShares(f *testing.F) {
	f.Add("main.main < runtime.main\nruntime.schedule", uint64(3))
	f.Add("type:.eq.a\n[\n(\n. < / < a/b.c[d/e.f]\n", uint64(1))
	f.Add("runtime.gcDrain < main.x\nnet/http.(*persistConn).readLoop < runtime.goexit", uint64(1<<40))
	f.Fuzz(func(t *testing.T, text string, requests uint64) {
		if requests == 0 || len(text) > 10_000 {
			return
		}
		p := reread(t, made(strings.Split(strings.ToValidUTF8(text, "?"), "\n")...))
		shares := Shares(p, requests)
		if len(shares) != len(Categories) {
			t.Fatalf("%v", shares)
		}
		if want := float64(cpuOf(p).Microseconds()) / float64(requests); math.Abs(total(shares)-want) > 1e-9*want {
			t.Fatalf("%v µs per request in all, want %v: %v", total(shares), want, shares)
		}
		if packages := Packages(p, requests); math.Abs(total(packages)-total(shares)) > 1e-9*total(shares) {
			t.Fatalf("%v µs per request by package, %v by category", total(packages), total(shares))
		}
	})
}

// Read sees what any service answers.
func FuzzRead(f *testing.F) {
	var plain, packed bytes.Buffer
	p := made("main.main < runtime.main", "runtime.schedule")
	require.NoError(f, p.WriteUncompressed(&plain))
	require.NoError(f, p.Write(&packed))
	f.Add(plain.Bytes())
	f.Add(packed.Bytes())
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		_ = cpuOf(p)
		assert.Equal(t, len(Categories), len(Shares(p, 1)), "categories")
		_ = Packages(p, 1)
	})
}

// Below counts whole stacks, as a flame graph does; Part counts categories.
func TestBelow(t *testing.T) {
	p := reread(t, made(
		"runtime.memmove < go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).processQueue < go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessor.func1",
		"go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessor",
		"go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessorOther < main.main",
		"main.main",
	))
	assert.Equal(t, 0.5, p.Below(BatchProcessor), "CPU time below the batch span processor")
	assert.EqualValues(t, 0, reread(t, made()).Below(BatchProcessor), "of nothing")
	shares := []record.Share{{Category: Other, Micros: 3}, {Category: RedisInstrumentation, Micros: 1}}
	assert.Equal(t, 0.25, Part(shares, RedisInstrumentation), "part of a category")
	assert.EqualValues(t, 0, Part(nil, RedisInstrumentation), "part of nothing")
	if got := captured(t, "traced").Below(BatchProcessor); got <= 0 || got >= 1 {
		t.Errorf("%v of a real traced service is below the batch span processor", got)
	}
	assert.EqualValues(t, 0, captured(t, "plain").Below(BatchProcessor), "of a service that is not traced")
}
