package load

import (
	"fmt"
	"time"
)

// Shares from which on a limit is reported.
const (
	tellBlocked = 0.01
	tellMissing = 0.01
)

// limits lists what limited or shaped r; begun counts the requests that were
// begun in the interval.
func limits(r *Result, o *Options, begun uint64) []string {
	var all []string
	if r.Lag.TotalCount() > 0 {
		if p99 := time.Duration(r.Lag.ValueAtQuantile(99)); p99 > o.LagLimit {
			all = append(all, fmt.Sprintf("generator late: lag p99 %v, above %v (p50 %v, maximum %v, of %d requests): it got too little CPU, or was asked for too much",
				short(p99), o.LagLimit, short(time.Duration(r.Lag.ValueAtQuantile(50))), short(time.Duration(r.Lag.Max())), r.Lag.TotalCount()))
		}
	}
	if o.Rate == 0 || r.Elapsed <= 0 {
		return all
	}
	if share := r.Blocked.Seconds() / r.Elapsed.Seconds(); share >= tellBlocked {
		all = append(all, fmt.Sprintf("all connections busy: due requests waited for one of %d connections during %.1f%% of the time: the service, or the number of connections, was the limit",
			o.Connections, 100*share))
	}
	if missing := float64(r.Offered) - float64(begun); missing >= 1 && missing >= tellMissing*float64(r.Offered) {
		all = append(all, fmt.Sprintf("rate not reached: %.6g of %.6g requests/s were sent (%d of %d that were due)",
			float64(begun)/r.Elapsed.Seconds(), float64(r.Offered)/r.Elapsed.Seconds(), begun, r.Offered))
	}
	if r.Unsent > 0 {
		all = append(all, fmt.Sprintf("%d due requests were not sent before the end: the latencies lack what would have been their greatest", r.Unsent))
	}
	return all
}

// short is d to three digits or so.
func short(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
