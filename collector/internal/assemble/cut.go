package assemble

import (
	"slices"
	"strings"

	"github.com/tare-trace/tare/span/semconv"
)

// linking is the state of a trace in which nothing is missing, with its reasons: where calls were not linked, there are
// other traces that belong to it. The kinds are the reasons without the names of services.
func (t *trace) linking() (state, reasons, kinds string) {
	var all, each []string
	add := func(kind, service string) {
		if reason := kind + "=" + service; !slices.Contains(all, reason) {
			all = append(all, reason)
		}
		if !slices.Contains(each, kind) {
			each = append(each, kind)
		}
	}
	for i := range t.items {
		if x := &t.items[i]; x.flags&(cut|folded) == cut && x.kind == kindServer {
			x.cuts(add)
		}
	}
	if all == nil {
		return semconv.StateComplete, "", ""
	}
	slices.Sort(all)
	slices.Sort(each)
	return semconv.StateUnlinked, strings.Join(all, ","), strings.Join(each, ",")
}

// cuts adds where the trace of a server's span begins or ends because something was not linked.
func (x *item) cuts(add func(kind, service string)) {
	attrs := x.span.Attributes()
	if v, ok := attrs.Get(semconv.Behind); ok && x.parent == 0 {
		add(semconv.BeginsBehind, v.AsString())
	}
	if _, ok := attrs.Get(semconv.LinkingReason); !ok {
		return
	}
	kind := semconv.MayEndAt
	if v, ok := attrs.Get(semconv.Linking); ok && v.Str() == semconv.LinkingNone {
		kind = semconv.EndsAt
	}
	add(kind, x.origin.resource.service)
}
