package rootcause

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	maxCauses = 3
	minCause  = 0.15    // share that each of several causes explains at least
	minTold   = 1. / 3  // share that all causes explain together at least
	minSlower = 0.1     // of the normal duration, by which slow traces are slower
	half      = 1. / 2  // of slow traces that may be incomplete, and of a row's time to be called waiting
	worthNote = 1. / 10 // of traces that are incomplete, without a note
)

// judge finds the verdict on an entry operation, or why there is none.
type judge struct {
	share      float64
	all, whole []*observation
	m          measured
	entry      *Entry
}

func (j *judge) cannot(format string, args ...any) {
	j.say(CannotTell, "cannot tell: "+format, args...)
}

func (j *judge) say(status Status, format string, args ...any) {
	v := &j.entry.Verdict
	v.Status, v.Text = status, fmt.Sprintf(format, args...)
}

func (j *judge) note(format string, args ...any) {
	j.entry.Verdict.Notes = append(j.entry.Verdict.Notes, fmt.Sprintf(format, args...))
}

// tooFew says so if there are too few slow traces; what was left out may be why.
func (j *judge) tooFew() bool {
	if j.m.slow.Traces >= minSlow {
		return false
	}
	need := int(math.Ceil(minSlow / j.share))
	j.cannot("only %d slow among %s, and at least %d are needed", j.m.slow.Traces, plural(len(j.whole), "whole trace"), minSlow)
	if len(j.all) >= need && len(j.whole) < len(j.all)/2 {
		j.note("%d of %d traces are incomplete and were left out: the health view and the collector's metrics say what was lost", len(j.all)-len(j.whole), len(j.all))
	} else {
		j.note("about %d traces are needed: look at a longer time, sample more, or call more of them slow (a larger share)", need)
	}
	return true
}

// decide finds what stands out.
func (j *judge) decide(operations, services *ranking) {
	v := &j.entry.Verdict
	j.limits()
	incomplete := j.incomplete()
	slower := ratio(operations.total, j.m.normal.Mean)
	r, byService, causes := operations, false, operations.causes(v)
	if causes == nil {
		if causes = services.causes(v); causes != nil {
			r, byService = services, true
		}
	}
	switch {
	case incomplete > half:
		j.cannot("%s of the traces that are as long as the slow ones are incomplete, and were left out", percent(incomplete))
		j.note("what lost their spans may be what made them slow: the health view and the collector's metrics say what was lost")
		return
	case j.onlyChosen():
		j.cannot("all traces were kept because they failed, were slow or rare, so there are no normal ones to compare with")
		j.note("let the collector keep a share of all traces: tare_keep's share")
		return
	case slower < minSlower:
		j.say(Nothing, "nothing to explain: the slowest %s are %s slower than the middle half", percent(j.share), percent(max(slower, 0)))
		return
	case causes == nil:
		j.nothing(operations)
		return
	}
	v.Causes, v.ByService = causes, byService
	names, told := []string{}, 0.0
	for i := range causes {
		names = append(names, fmt.Sprintf("%s %s", causes[i].Name(), causes[i].Explains.percents()))
		told += causes[i].Explains.Value
	}
	if len(causes) == 1 {
		v.Text = fmt.Sprintf("%s explains %s of what slow requests are slower by: %s", causes[0].Name(), causes[0].Explains.percents(), causes[0].how())
	} else {
		v.Text = fmt.Sprintf("%s explain %s of what slow requests are slower by: %s", enumerate(names), percent(told), r.alternate(causes))
	}
	v.Status = Found
	if byService {
		j.note("none of the service's operations stands out alone: the names or the paths of its spans may differ from request to request")
	}
	for i := range causes {
		if causes[i].Unlinked {
			j.cannot("%s", v.Text)
			j.note("calls that %s makes are not linked to its requests (tare.linking), so it is not known whether it is slow itself or waits: docs/linking.md", causes[i].Name())
			break
		}
	}
	if !v.Ordered && len(causes) > 1 {
		j.note("which of them explains more is not certain")
	}
	mark(j.entry.Operations, causes, byService, operations.total)
}

// causes are the rows that stand out, nil if there are none: as many as possible, each of
// which explains more than anything that is not among them.
func (r *ranking) causes(v *Verdict) []Row {
	most := min(maxCauses, len(r.rows)-1)
	if len(r.excess) == 1 {
		most = 1
	}
	for k := most; k > 0; k-- {
		told := 0.0
		large := true
		for i := range k {
			told += r.rows[i].Explains.Value
			large = large && (k == 1 || r.rows[i].Explains.Value >= minCause)
		}
		if !large || told < minTold {
			continue
		}
		first := r.order[:k]
		c := r.confidence(func(x []float64) bool {
			least := math.Inf(1)
			for _, n := range first {
				least = min(least, x[n])
			}
			for n := range x {
				if x[n] >= least && !slices.Contains(first, int32(n)) {
					return false
				}
			}
			return least > 0
		})
		if c < certainty {
			continue
		}
		v.Confidence = c
		v.Ordered = r.confidence(func(x []float64) bool {
			return slices.IsSortedFunc(first, func(a, b int32) int {
				if x[a] > x[b] {
					return -1
				}
				return 1
			})
		}) >= certainty
		out := slices.Clone(r.rows[:k])
		for i := range out {
			out[i].Role = Cause
		}
		return out
	}
	return nil
}

// nothing says that no row stands out, or that it is not certain which one does.
func (j *judge) nothing(r *ranking) {
	first := &r.rows[0]
	text := fmt.Sprintf("%s explains %s of what slow requests are slower by", first.Name(), first.Explains.percents())
	if len(r.rows) > 1 {
		text += fmt.Sprintf(", %s %s", r.rows[1].Name(), r.rows[1].Explains.percents())
	}
	if first.Explains.Hi >= half {
		j.cannot("%s: which of them stands out is not certain", text)
		j.note("more traces make the intervals narrower: look at a longer time, or sample more")
		return
	}
	j.say(Nothing, "nothing stands out: %s; many operations are a bit slower", text)
}

// incomplete is how many of the traces that are at least as long as the slow ones were left
// out, by requests.
func (j *judge) incomplete() float64 {
	lost, all := 0.0, 0.0
	for _, o := range j.all {
		if o.duration < j.m.slow.From {
			break
		}
		all += o.weight
		if !o.whole {
			lost += o.weight
		}
	}
	return ratio(lost, all)
}

// limits notes what readers should know whatever the verdict is.
func (j *judge) limits() {
	if lost := len(j.all) - len(j.whole); float64(lost) > worthNote*float64(len(j.all)) {
		j.note("%d of %d traces are incomplete and were left out", lost, len(j.all))
	}
	failed := 0
	for _, o := range j.whole {
		if o.failed {
			failed++
		}
	}
	if failed == len(j.whole) {
		j.note("all traces failed: if only failed ones were kept, they say nothing about others")
	}
	if j.m.effective < minSlow {
		j.note("few of the slow traces stand for most of them (as much as %.1f of equal weight): the intervals may be too narrow", j.m.effective)
	}
}

// onlyChosen reports whether no trace was kept by chance.
func (j *judge) onlyChosen() bool {
	return !slices.ContainsFunc(j.whole, func(o *observation) bool {
		return !slices.Contains([]string{"error", "slow", "rare", "incomplete"}, o.keep)
	})
}

// mark gives the rows their roles.
func mark(rows, causes []Row, byService bool, total float64) {
	for i := range rows {
		r := &rows[i]
		for k := range causes {
			c := &causes[k]
			if r.Kind == c.Kind && r.Service == c.Service && r.From == c.From && (byService || r.Operation == c.Operation) {
				r.Role = Cause
			}
		}
		if r.Role == "" && r.Kind == Own && r.Explains.Value < minCause && ratio(r.Waits, total) > half {
			r.Role = Waits
		}
	}
}

// Name is the row in words.
func (r *Row) Name() string {
	switch {
	case r.Kind == Between:
		return fmt.Sprintf("what is between %s and %s", r.From, r.Service)
	case r.Operation == "":
		return r.Service
	}
	return r.Service + " " + r.Operation
}

// how says in which way a cause is slow.
func (r *Row) how() string {
	switch r.Kind {
	case Between:
		return "the network, or queues at either end"
	case Peer:
		return fmt.Sprintf("%s, as its caller %s measured it; it sends no spans", r.Service, r.From)
	}
	if r.SpansNormal > 0 && r.SpansSlow > 1.5*r.SpansNormal && r.Slow/r.SpansSlow < 1.5*r.Normal/r.SpansNormal {
		return fmt.Sprintf("called %.1f times in place of %.1f, each as fast as in normal requests", r.SpansSlow, r.SpansNormal)
	}
	return "itself, not what it waits for"
}

// alternate says whether several causes are slow in the same requests.
func (r *ranking) alternate(causes []Row) string {
	for i := range causes {
		for _, id := range causes[i].Examples {
			for k := range causes {
				if k != i && slices.Contains(causes[k].Examples, id) {
					return "some requests were slow at more than one of them"
				}
			}
		}
	}
	return "each in requests of its own"
}

func (i Interval) percents() string {
	return fmt.Sprintf("%s (%s to %s)", percent(i.Value), percent(i.Lo), percent(i.Hi))
}

func percent(share float64) string {
	p := 100 * share
	if math.Abs(p) < 0.05 {
		p = 0
	}
	if a := math.Abs(p); a > 0 && a < 9.95 && math.Abs(p-math.Round(p)) > 0.05 {
		return fmt.Sprintf("%.1f%%", p)
	}
	return fmt.Sprintf("%.0f%%", p)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
