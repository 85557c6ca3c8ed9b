package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/workloads"
)

// The queries. Of 1,000,000 spans about 90 meet the first, and three the second:
// they are among the oldest.
var (
	failedQuery = query{service: "shop", min: 20 * time.Millisecond, failed: true, limit: 20}
	rareQuery   = query{service: "stock", min: time.Second, failed: true, limit: 20}
)

// How often things are read in a round.
const (
	lookups  = 1000
	searches = 5
	scans    = 3
)

// measured is what one process measured of one engine.
type measured struct {
	Spans       int     `json:"spans"`
	Rate        float64 `json:"spans_per_s"`
	CPU         float64 `json:"cpu_us_per_span"`
	Bytes       float64 `json:"bytes_per_span"`
	Logs        float64 `json:"logs_mib"` // on disk after writing, but not after opening and closing once more
	Open        float64 `json:"open_ms"`
	TraceMedian float64 `json:"trace_median_ms"`
	TraceP99    float64 `json:"trace_p99_ms"`
	Failed      float64 `json:"search_failed_ms"`
	Rare        float64 `json:"search_rare_ms"`
	Quantiles   float64 `json:"quantiles_ms"`
	WriteMem    float64 `json:"write_memory_mib"`
	ReadMem     float64 `json:"read_memory_mib"`
	Answers     answers `json:"-"`
}

// answers must be the same of every engine.
type answers struct {
	Failed, Rare []string
	Latencies    map[string][]float64 // count, errors, ns
}

// answered is what a process says.
type answered struct {
	measured
	Answers answers
}

// measureChild is one round of one engine: its number, a directory, how many
// batches.
func measureChild(ctx context.Context, args []string) error {
	e, dir, batches, err := childArgs(args)
	if err != nil {
		return err
	}
	t, err := newTraffic()
	if err != nil {
		return err
	}
	m := measured{Spans: batches * batchSpans}
	if err := m.writeAll(ctx, e, dir, t, batches); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	written, err := diskBytes(dir)
	if err != nil {
		return err
	}
	// What the template and the writing took is not the reading's.
	*t = traffic{}
	if err := m.readAll(ctx, e, dir, batches*tracesPerBatch); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	settled, err := diskBytes(dir)
	if err != nil {
		return err
	}
	m.Bytes, m.Logs = float64(settled)/float64(m.Spans), mib(written, settled)
	return json.NewEncoder(os.Stdout).Encode(answered{m, m.Answers})
}

func childArgs(args []string) (e *candidate, dir string, batches int, err error) {
	if len(args) != 3 {
		return nil, "", 0, fmt.Errorf("%d arguments", len(args))
	}
	i, err := strconv.Atoi(args[0])
	if err != nil || i < 0 || i >= len(candidates) {
		return nil, "", 0, fmt.Errorf("engine %q", args[0])
	}
	batches, err = strconv.Atoi(args[2])
	return &candidates[i], args[1], batches, err
}

// writeAll includes opening an empty engine and closing it, with what that writes,
// but not making the spans: that is taken off by its thread's CPU time, since on
// one CPU an engine's work in the background goes on meanwhile.
func (m *measured) writeAll(ctx context.Context, e *candidate, dir string, t *traffic, batches int) error {
	base, err := settle()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := meter.ReadProcess(os.Getpid())
	if err != nil {
		return err
	}
	making := time.Duration(0)
	s, err := e.open(dir)
	if err != nil {
		return err
	}
	for n := range batches {
		from, err := threadCPU()
		if err != nil {
			return errors.Join(err, s.close())
		}
		td := t.batch(n)
		to, err := threadCPU()
		if err != nil {
			return errors.Join(err, s.close())
		}
		making += to - from
		if err := s.write(ctx, td); err != nil {
			return errors.Join(err, s.close())
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	after, err := meter.ReadProcess(os.Getpid())
	if err != nil {
		return err
	}
	m.Rate = float64(m.Spans) / (after.At.Sub(before.At) - making).Seconds()
	m.CPU = float64((after.CPU - before.CPU - making).Microseconds()) / float64(m.Spans)
	m.WriteMem = mib(after.PeakRSS, base)
	return nil
}

// readAll reads from an engine that was opened anew. Files are in the kernel's
// cache, as they are on a host whose store is in use.
func (m *measured) readAll(ctx context.Context, e *candidate, dir string, traces int) error {
	base, err := settle()
	if err != nil {
		return err
	}
	from := time.Now()
	s, err := e.open(dir)
	if err != nil {
		return err
	}
	m.Open = ms(time.Since(from))
	err = m.read(ctx, s, traces)
	after, procErr := meter.ReadProcess(os.Getpid())
	m.ReadMem = mib(after.PeakRSS, base)
	return errors.Join(err, procErr, s.close())
}

func (m *measured) read(ctx context.Context, s engine, traces int) error {
	r := rand.New(rand.NewPCG(3, 3))
	var took []time.Duration
	for range lookups {
		id := traceID(r.Uint64N(uint64(traces)))
		from := time.Now()
		td, err := s.trace(ctx, id)
		took = append(took, time.Since(from))
		if err != nil {
			return err
		}
		if td.SpanCount() != workloads.SpansPerTrace {
			return fmt.Errorf("trace %v has %d spans", id, td.SpanCount())
		}
	}
	slices.Sort(took)
	m.TraceMedian, m.TraceP99 = ms(took[lookups/2]), ms(took[lookups*99/100])
	var err error
	if m.Failed, m.Answers.Failed, err = timedSearch(ctx, s, failedQuery); err != nil {
		return err
	}
	if m.Rare, m.Answers.Rare, err = timedSearch(ctx, s, rareQuery); err != nil {
		return err
	}
	if m.Quantiles, err = timed(scans, func() error {
		found, err := s.latencies(ctx)
		m.Answers.Latencies = map[string][]float64{}
		for _, l := range found {
			m.Answers.Latencies[l.service] = []float64{float64(l.spans), float64(l.errors), float64(l.p50), float64(l.p95), float64(l.p99)}
		}
		return err
	}); err != nil {
		return err
	}
	return nil
}

func timedSearch(ctx context.Context, s engine, q query) (median float64, found []string, err error) {
	median, err = timed(searches, func() error {
		list, err := s.search(ctx, q)
		found = nil
		for _, t := range list {
			found = append(found, fmt.Sprintf("%+v", t))
		}
		return err
	})
	return median, found, err
}

// timed is the median of so many calls, in ms.
func timed(calls int, call func() error) (float64, error) {
	var took []time.Duration
	for range calls {
		from := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(from))
	}
	slices.Sort(took)
	return ms(took[calls/2]), nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func mib(bytes, base uint64) float64 { return (float64(bytes) - float64(base)) / (1 << 20) }

// settle gives memory back, and lets the kernel forget how much it was; it
// returns what is left.
func settle() (uint64, error) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // proc(5): resets VmHWM
		return 0, err
	}
	p, err := meter.ReadProcess(os.Getpid())
	return p.RSS, err
}

func threadCPU() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// diskBytes is what the files take of the disk.
func diskBytes(dir string) (uint64, error) {
	sum := uint64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err != nil {
			return err
		}
		sum += uint64(s.Blocks) * 512
		return nil
	})
	return sum, err
}
