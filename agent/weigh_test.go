package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/span"
)

// scale is a kernel side whose hooks take so much per second while they are timed.
type scale struct {
	mu        sync.Mutex
	perSecond map[uint16]kernel.Weight
	began     time.Time // zero: not timed
	timed     time.Duration
}

func (s *scale) Weigh(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.began = time.Now()
		return nil
	}
	s.timed += time.Since(s.began)
	s.began = time.Time{}
	return nil
}

func (s *scale) Weight(index uint16) (kernel.Weight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	timed := s.timed
	if !s.began.IsZero() {
		timed += time.Since(s.began)
	}
	w, n := s.perSecond[index], timed.Seconds()
	return kernel.Weight{
		Time: time.Duration(float64(w.Time) * n), Runs: uint64(float64(w.Runs) * n), Requests: uint64(float64(w.Requests) * n),
	}, nil
}

func (s *scale) Threshold() (uint64, error) { return 1 << 55, nil }

func weighing(s *scale, names map[uint16]string) *weigher {
	resources := map[uint16]*span.Resource{}
	for i, name := range names {
		resources[i] = &span.Resource{Service: name}
	}
	zero := func() uint64 { return 0 }
	return newWeigher(s, func(i uint16) *span.Resource { return resources[i] }, zero, zero)
}

// Containers of one service are one line; the heaviest comes first; what is not traced is
// told apart; and the counters have the sum of all that was weighed.
func TestWeigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scale{perSecond: map[uint16]kernel.Weight{
			0: {Time: 2 * time.Millisecond, Runs: 50},
			1: {Time: 10 * time.Millisecond, Runs: 2000, Requests: 1000},
			2: {Time: 30 * time.Millisecond, Runs: 3000, Requests: 1000},
			3: {Time: 50 * time.Millisecond, Runs: 10},
		}}
		w := weighing(s, map[uint16]string{1: "shop", 2: "shop", 3: "client", 4: "idle"})
		out, err := w.weigh(t.Context(), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want := []serviceWeight{{Name: "client", Cores: 0.05}, {Name: "shop", Requests: 2000, PerRequest: 20_000, Cores: 0.04}}
		if out.Seconds != 2 || !reflect.DeepEqual(out.Services, want) || out.OtherCores != 0.002 || out.Sampled != 0.5 {
			t.Errorf("%+v", out)
		}
		if sum := out.Agent.Cores + 0.092; math.Abs(out.Cores-sum) > 1e-9 || math.Abs(out.Share-sum/float64(out.CPUs)) > 1e-9 || out.Agent.Memory == 0 {
			t.Errorf("%+v", out)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.run(ctx) }()
		time.Sleep(10*weighEvery + weighEvery/2)
		cancel()
		if err := <-done; err != nil || s.timed != 12*time.Second || !s.began.IsZero() {
			t.Errorf("timed for %v of ten minutes, %v", s.timed, err)
		}
		const metrics = `
# HELP tare_weighed_kernel_seconds_total What kernel programs took meanwhile on sockets of a service; service "": on others.
# TYPE tare_weighed_kernel_seconds_total counter
tare_weighed_kernel_seconds_total{service=""} 0.024
tare_weighed_kernel_seconds_total{service="client"} 0.6
tare_weighed_kernel_seconds_total{service="shop"} 0.48
# HELP tare_weighed_requests_total Requests that a service received meanwhile, sampled or not.
# TYPE tare_weighed_requests_total counter
tare_weighed_requests_total{service="client"} 0
tare_weighed_requests_total{service="shop"} 24000
# HELP tare_weighed_seconds_total How long kernel programs were timed, service by service: a second of each minute, and when somebody asks.
# TYPE tare_weighed_seconds_total counter
tare_weighed_seconds_total 12
`
		if err := testutil.CollectAndCompare(w, strings.NewReader(metrics)); err != nil {
			t.Error(err)
		}
	})
}

// Whoever asks and goes away leaves nothing switched on; an index that became another
// container's meanwhile counts from its beginning.
func TestWeighEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scale{}
		w := weighing(s, map[uint16]string{1: "shop"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.weigh(ctx, time.Minute); err == nil || s.timed != time.Second || !s.began.IsZero() {
			t.Errorf("timed for %v, %v", s.timed, err)
		}
	})
	if got := minus(kernel.Weight{Time: 3, Runs: 2, Requests: 1}, kernel.Weight{Time: 9, Runs: 9, Requests: 9}); got != (kernel.Weight{Time: 3, Runs: 2, Requests: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestWeighCommand(t *testing.T) {
	s := &scale{perSecond: map[uint16]kernel.Weight{1: {Time: 100 * time.Millisecond, Runs: 4000, Requests: 2000}}}
	mux := http.NewServeMux()
	mux.Handle("GET "+weightPath, weighing(s, map[uint16]string{1: "shop"}))
	agent := httptest.NewServer(mux)
	defer agent.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer page.Close()
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	run := func(args ...string) (string, error) {
		cmd := WeighCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		cmd.SilenceUsage = true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	got, err := run("--agent", address(agent), "--for", "50ms")
	if err != nil || !regexp.MustCompile(`shop +\d+\.\d +[45]\d\.\d\d +0\.[01]\d+`).MatchString(got) || !strings.Contains(got, "50% of traces are sampled") {
		t.Errorf("%s, %v", got, err)
	}
	got, err = run("--agent", address(agent), "--for", "50ms", "--json")
	var w weight
	if err != nil || json.Unmarshal([]byte(got), &w) != nil || len(w.Services) != 1 || w.Services[0].PerRequest == 0 {
		t.Errorf("%s, %v", got, err)
	}
	other.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--agent", address(other)}, "no agent listens at"},
		{[]string{"--agent", address(page)}, "no agent of Tare"},
		{[]string{"--agent", "9464"}, "give the address"},
		{[]string{"--for", "1h"}, "give a duration from 10ms to 30s"},
	} {
		if _, err := run(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	for _, query := range []string{"for=1h", "for=-1s", "for=" + strings.Repeat("x", 1000)} {
		answer, err := http.Get(agent.URL + weightPath + "?" + query)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("?%.20s: %s", query, answer.Status)
		}
	}
}
