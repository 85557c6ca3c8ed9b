package workloads

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/tare-trace/tare/workloads/polyglot"
)

//go:embed polyglot/backend.conf
var polyglotFiles embed.FS

// polyglotPrefix begins the name of a chain of one service of package polyglot, with the backend and the redis that it
// asks. Request 7 is /n/7.
const polyglotPrefix = "polyglot-"

// instrumentation is the variable that says what is loaded into the service: polyglot.Shim, polyglot.SDK, or nothing.
const instrumentation = "INSTRUMENTATION"

// polyglotService is its name in the chain.
const polyglotService = "service"

func polyglotPlan(name string) (plan, error) {
	all := polyglot.All()
	i := slices.IndexFunc(all, func(s polyglot.Service) bool { return s.Name == name })
	if i < 0 {
		return plan{}, fmt.Errorf("no service %q in package polyglot: go run ./workloads/polyglot/build -list shows them", name)
	}
	s := all[i]
	p := plan{
		requires: polyglotRequirements(s),
		truth:    polyglotShape(s).Always(),
		unlinked: true,
		absent:   func(bin string) error { return polyglotAbsent(s, bin) },
		path:     "/n/",
		reserved: []string{"HOST", "PORT", "BACKEND", "REDIS", "PATH", "HOME", "LANG"},
		services: []string{polyglotService, "backend"},
		specs:    func(b *builder) ([]spec, error) { return polyglotSpecs(b, s) },
	}
	p.requestID = s.Header
	if s.Fronted {
		p.services = append([]string{"front"}, p.services...)
	}
	if !s.Proxy {
		p.services = append(p.services, "redis")
	}
	return p, nil
}

// requestIDs are of no two requests the same, also if their numbers are.
func requestIDs() func(dst []byte, n uint64) []byte {
	var last atomic.Uint64
	return func(dst []byte, _ uint64) []byte {
		return fmt.Appendf(dst, "x-request-id: 6b0f7a54-%016x\r\n", last.Add(1))
	}
}

// polyglotRequirements are packages; what is built is no package's.
func polyglotRequirements(s polyglot.Service) []Requirement {
	all := []Requirement{nginxPackage}
	if !s.Proxy {
		all = append(all, redisPackage)
	}
	for _, n := range s.Needs {
		all = append(all, Requirement{Executable: n.File, Package: n.Package, Unit: n.Unit})
	}
	return all
}

// PolyglotRequirements are what all services of package polyglot need of the distribution, and what builds them; Rust's
// own is too old there for the crates.
func PolyglotRequirements() []Requirement {
	all := []Requirement{
		{Executable: "g++", Package: "g++"},
		{Executable: "javac", Package: "default-jdk-headless"},
		{Executable: "mvn", Package: "maven"},
		{Executable: "npm", Package: "npm"},
		{Executable: "/usr/lib/python3*/ensurepip/__init__.py", Package: "python3-venv"},
	}
	for _, s := range polyglot.All() {
		for _, r := range polyglotRequirements(s) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// polyglotShape is that of a trace whose calls are linked. Spans of FastCGI have no names, so a fronted service has none
// that is complete.
func polyglotShape(s polyglot.Service) Shape {
	asked := []Shape{call(polyglotService, "/n/", serve("backend", "/n/"))}
	if !s.Proxy {
		asked = append(asked, call(polyglotService, "GET n:", serve("redis", "GET n:")))
	}
	shape := serve(polyglotService, "/n/", asked...)
	if s.Fronted {
		return serve("front", "/n/", call("front", "/n/", shape))
	}
	return shape
}

// polyglotDir is what `make polyglot` made, beside the other executables.
func polyglotDir(bin string) (string, error) {
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		bin = filepath.Dir(self)
	}
	return filepath.Abs(filepath.Join(bin, "polyglot"))
}

// polyglotAbsent says what of it is not built.
func polyglotAbsent(s polyglot.Service, bin string) error {
	built, err := polyglotDir(bin)
	if err != nil {
		return err
	}
	if missing := s.Missing(built); missing != "" {
		return errors.New(missing)
	}
	return nil
}

func polyglotSpecs(b *builder, s polyglot.Service) ([]spec, error) {
	if what := b.opts.Env[instrumentation]; what != "" {
		var err error
		if s, err = s.With(what); err != nil {
			return nil, err
		}
	}
	if err := polyglotAbsent(s, b.opts.Bin); err != nil {
		return nil, err
	}
	built, err := polyglotDir(b.opts.Bin)
	if err != nil {
		return nil, err
	}
	p := polyglot.Place{Host: b.host, Port: b.ports[polyglotService], Backend: b.ports["backend"], Redis: b.ports["redis"], Dir: b.dir, Built: built}
	if s.Fronted {
		p.Port, p.Inner = b.ports["front"], p.Port
	}
	commands, err := s.Commands(p)
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, c := range commands {
		sp := b.service(c.Name)
		sp.argv = c.Argv
		sp.env = environ([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LANG=C.UTF-8"}, b.opts.Env, p.Environment())
		specs = append(specs, sp)
	}
	specs[0].health = "/n/0"
	backend, err := b.nginx(polyglotFiles, "polyglot/backend.conf", "backend", "")
	if err != nil {
		return nil, err
	}
	specs = append(specs, backend)
	if s.Proxy {
		return specs, nil
	}
	redis, err := redisServer(b, b.service("redis"))
	return append(specs, redis), err
}
