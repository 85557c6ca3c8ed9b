package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tare-trace/tare/workloads/polyglot"
)

// functionsPrefix begins the name of a chain of three functions, each behind a proxy of
// its own on the same host, as sidecars are: functions-haproxy, functions-nginx.
const functionsPrefix = "functions-"

// functionsHops are the functions, the first that is asked first.
var functionsHops = []string{"function-a", "function-b", "function-c"}

// sidecar names the proxy of a function.
func sidecar(function string) string { return function + "-proxy" }

// functionsPlan: the functions are services of thesisPlan, each of which asks the next
// one, through that one's proxy, before it answers. The proxies are the laboratory's of
// package polyglot, with the configuration that they have there. Request 7 is /api/basic/7.
func functionsPlan(name string) (plan, error) {
	all := polyglot.All()
	i := slices.IndexFunc(all, func(s polyglot.Service) bool {
		return s.Name == name && s.Proxy && !s.Fronted && (!s.Header || s.Today == polyglot.Linked)
	})
	if i < 0 {
		return plan{}, fmt.Errorf("no proxy %q in package polyglot: haproxy, nginx and envoy are", name)
	}
	proxy := all[i]
	p := plan{
		truth: functionsShape(functionsHops).Always(),
		// Until it is known how a proxy hands requests over, its calls may not be linked.
		unlinked:  true,
		path:      thesisPath,
		requestID: proxy.Header,
		reserved:  []string{"LISTEN", "NEXT", "OTEL_SERVICE_NAME"},
		absent:    func(bin string) error { return polyglotAbsent(proxy, bin) },
		specs:     func(b *builder) ([]spec, error) { return functionsSpecs(b, proxy) },
	}
	for _, n := range proxy.Needs {
		p.requires = append(p.requires, Requirement{Executable: n.File, Package: n.Package, Unit: n.Unit})
	}
	for _, hop := range functionsHops {
		p.services = append(p.services, sidecar(hop), hop)
	}
	return p, nil
}

// functionsShape has the spans of the proxies, which only who looks at the wire reports.
func functionsShape(hops []string) Shape {
	function := serve(hops[0], thesisPath)
	if len(hops) > 1 {
		function = serve(hops[0], thesisPath, call(hops[0], thesisPath, functionsShape(hops[1:])))
	}
	passed := call(sidecar(hops[0]), thesisPath, function)
	passed.Wire = true
	proxy := serve(sidecar(hops[0]), thesisPath, passed)
	proxy.Wire = true
	return proxy
}

func functionsSpecs(b *builder, proxy polyglot.Service) ([]spec, error) {
	if err := polyglotAbsent(proxy, b.opts.Bin); err != nil {
		return nil, err
	}
	built, err := polyglotDir(b.opts.Bin)
	if err != nil {
		return nil, err
	}
	var sidecars []string
	for _, hop := range functionsHops {
		sidecars = append(sidecars, sidecar(hop))
	}
	functions, err := thesisServices(b, functionsHops, sidecars)
	if err != nil {
		return nil, err
	}
	var specs []spec
	for i, f := range functions {
		dir := filepath.Join(b.dir, sidecars[i])
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // workers enter it
			return nil, err
		}
		commands, err := proxy.Commands(polyglot.Place{Host: b.host, Port: b.ports[sidecars[i]], Backend: f.port, Dir: dir, Built: built})
		if err != nil {
			return nil, err
		}
		s := b.service(sidecars[i])
		s.argv, s.proxy, s.health = commands[0].Argv, true, "/health"
		s.env = environ([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8"})
		specs = append(specs, s, f)
	}
	return specs, nil
}
