package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run, or an interval of it, found. A request belongs to the
// interval in which it ends: answered to its last byte, failed or aborted.
type Result struct {
	OK, Failed uint64
	Aborted    uint64 // in flight when the context ended; neither OK nor failed
	Elapsed    time.Duration
	Next       uint64 // the first number that was not sent: First of the next run
	Dials      uint64 // connections that were opened, or tried

	// Offered counts the requests that were due within the interval (open
	// loop), or were begun within it (closed loop), whatever became of them.
	Offered uint64
	// Unsent counts the requests that were due when the run ended, by
	// Duration, Stop or its context, and still waited for a connection: the
	// worst latencies, which Latency therefore does not hold. Only known, and
	// not 0, once the run is over; only in an open loop.
	Unsent uint64
	// Blocked is for how long of the interval some due request waited because
	// all connections were busy. Only in an open loop.
	Blocked time.Duration

	// Latency of the requests answered well, in nanoseconds to 0.1%, to the
	// last byte: from the intended send time in an open loop, else from before
	// the write (on a new connection: before the dial). nil if the driver
	// tells no more than some quantiles: see Quantile.
	Latency *hdrhistogram.Histogram

	// SinceSent is the same latency from when each request was really begun, also in an open
	// loop: uncorrected, as wrk2's --u_latency. A request that waited because the service was
	// slow with those before it is charged only with its own answer (coordinated omission).
	// nil from other drivers.
	SinceSent *hdrhistogram.Histogram

	// Lag of the requests begun in the interval, in nanoseconds: how much
	// later than possible each was begun by the generator's own fault, after
	// its intended send time and after a connection was free for it. nil from
	// other drivers.
	Lag *hdrhistogram.Histogram

	// CPU is the time of the generator's own threads within the interval; 0 from other
	// drivers, whose load another process sends.
	CPU time.Duration

	// Errors counts the failures by reason, MaxReasons of them at most; the
	// rest is counted as "other".
	Errors map[string]uint64

	// Limits lists, in sentences for people, what other than the service
	// limited or shaped the result; empty: nothing was found.
	Limits []string

	quantiles []quantile // of ab, by q
}

// MaxReasons bounds Result.Errors.
const MaxReasons = 20

// quantile of latency, as ab reports it.
type quantile struct {
	q float64 // 0…1
	d time.Duration
}

// Quantile of the latency, q from 0 to 1, both included. false: it is not known,
// because nothing was answered or because the driver does not report that quantile;
// nothing is interpolated.
func (r Result) Quantile(q float64) (time.Duration, bool) {
	if q < 0 || q > 1 || q != q {
		return 0, false
	}
	if h := r.Latency; h != nil {
		switch {
		case h.TotalCount() == 0:
			return 0, false
		case q == 0:
			return time.Duration(h.Min()), true
		default:
			return time.Duration(h.ValueAtQuantile(100 * q)), true
		}
	}
	for _, k := range r.quantiles {
		if d := k.q - q; -1e-9 < d && d < 1e-9 {
			return k.d, true
		}
	}
	return 0, false
}

// From 1 µs to 10 min at three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(10*time.Minute), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// The error says "too large": longer than ten minutes, and a request
	// that was answered is worth counting all the same.
	if h.RecordValue(int64(max(d, 0))) != nil {
		_ = h.RecordValue(h.HighestTrackableValue())
	}
}
