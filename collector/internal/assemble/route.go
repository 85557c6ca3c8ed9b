package assemble

import (
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/span/route"
	"github.com/tare-trace/tare/span/semconv"
	spantext "github.com/tare-trace/tare/span/text"
)

// Outcomes of naming HTTP spans: indices of Stats.Routes.
const (
	RouteGiven   = iota // by a framework or a client's template
	RouteLearned        // of the paths of the service's other requests
	RouteUnknown        // a path that the service does not have (404), or too many services
	routeOutcomes
)

// RouteOutcomes are the names of the outcomes.
var RouteOutcomes = [routeOutcomes]string{"given", "learned", "unknown"}

// routes names HTTP spans whose sender knows no route: by the agent, which sees paths
// only, and by instrumentation of clients and of servers without a framework.
type routes struct {
	learner *route.Learner
	counts  [routeOutcomes]atomic.Uint64
}

// name gives a span its method and route as name, as the semantic conventions say, if
// its sender has named it by no more than the method, or by method and path. The route
// is in the name only: http.route is what a framework says.
func (r *routes) name(x *item) {
	if x.kind != kindServer && x.kind != kindClient || !mayBeMethod(x.span.Name()) {
		return
	}
	h := httpOf(x.span.Attributes())
	if h.method == "" || !h.names(x.span.Name()) {
		return
	}
	if h.cut && h.route == "" && h.template == "" { // a part of a path has no route, and must not become one
		r.counts[RouteUnknown].Add(1)
		return
	}
	at, outcome := h.route, RouteGiven
	if x.kind == kindClient {
		at = h.template
	}
	if at == "" {
		if h.path == "" {
			return
		}
		group := "s" + x.origin.resource.service
		if x.kind == kindClient {
			group = "c" + x.origin.resource.service + "\x00" + h.server
		}
		var ok bool
		// What a service does not have is asked by scanners, and must not become its routes.
		if at, ok = r.learner.Route(group, h.path, h.status != 404); ok {
			outcome = RouteLearned
		} else {
			outcome = RouteUnknown
		}
	}
	r.counts[outcome].Add(1)
	name := h.method
	if name == "_OTHER" {
		name = "HTTP"
	}
	if at != "" {
		name += " " + at
	}
	if name = spantext.Name(name, spantext.MaxName); name != x.span.Name() {
		x.span.SetName(name)
	}
}

// mayBeMethod is a quick no for most names of spans that are not named by a method.
func mayBeMethod(name string) bool {
	return name != "" && (name[0] == '/' || name[0] >= 'A' && name[0] <= 'Z')
}

// http is what a span says of an HTTP request, by the conventions of today or before.
type http struct {
	method, original, path, route, template, server string
	status                                          int64
	cut                                             bool // path is not all of it
}

func httpOf(attrs pcommon.Map) (h http) {
	rank := 0
	path := func(r int, v string) {
		if r > rank && v != "" {
			rank, h.path = r, v
		}
	}
	for k, v := range attrs.All() {
		switch k {
		case "http.request.method", "http.method":
			h.method = v.Str()
		case "http.request.method_original":
			h.original = v.Str()
		case "http.route":
			h.route = v.Str()
		case "url.template":
			h.template = v.Str()
		case "url.path":
			path(3, v.Str())
		case "http.target":
			path(2, v.Str())
		case "url.full", "http.url":
			path(1, v.Str())
		case "server.address", "net.peer.name":
			h.server = v.Str()
		case "http.response.status_code", "http.status_code":
			h.status = v.Int()
		case semconv.PathCut:
			h.cut = v.Bool()
		}
	}
	return h
}

// names reports whether the name says no more than method and path.
func (h *http) names(name string) bool {
	rest := strings.TrimPrefix(name, "HTTP ")
	if name == "HTTP" || rest == h.method || h.original != "" && rest == h.original {
		return true
	}
	rest = strings.TrimPrefix(rest, h.method+" ")
	return strings.HasPrefix(rest, "/") && h.path != "" && strings.TrimPrefix(route.Clean(rest), "/") == strings.TrimPrefix(route.Clean(h.path), "/")
}
