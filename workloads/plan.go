package workloads

import (
	"errors"
	"fmt"
	"strings"
)

// A plan is all that is known of a chain: each is a variable in a file of its
// own, and stands in the table below.
type plan struct {
	requires []Requirement
	// truth has the shapes of its traces; nil: its requests carry no number that
	// tells them apart.
	truth Truth
	// unlinked: its calls may not be linked, and then begin traces of their own.
	unlinked bool
	// late lists the services that answer late, by the environment; nil: none can.
	late      func(env map[string]string) []string
	command   bool                  // it needs Options.Command, which the others do not take
	path      string                // of a request, up to its number
	paths     func(n uint64) string // instead of path, where requests differ in more than their number
	fixed     bool                  // path is the whole path: requests are not told apart
	choose    bool                  // the caller may choose the path (Options.Path)
	services  []string
	more      []string // further ports that its services listen on, by their names
	traffic   bool     // its requests are OTLP, each with a body of its own
	requestID bool     // each has an x-request-id of its own
	planted   bool     // each has secrets of its own, in its head and body
	reserved  []string // variables that the plan sets and Options.Env must not; nil: it takes no Env
	specs     func(b *builder) ([]spec, error)
	// absent says what beside packages is missing on this machine; nil: nothing can be.
	absent func(bin string) error
}

// A spec is how one service is started.
type spec struct {
	name string
	// replica counts those of the same name, from 0.
	replica int
	host    string // address that it listens on
	port    int
	// metrics is the port of its Prometheus endpoint, 0 if it has none.
	metrics int
	argv    []string
	env     []string // all of its environment; nil: this process'
	dir     string   // working directory; "": the chain's
	// network is where it runs; nil: where this process runs.
	network *Network
	// health is the path that answers 2xx when it is ready; "": it is ready
	// when it accepts connections.
	health string
	// dependency: it is asked by the service under test, and is none itself.
	dependency bool
	// proxy: it only passes requests on.
	proxy bool
	// workers is how many processes the first one starts; it may listen
	// before it has them.
	workers int
	// wave: neighbours with the same one are started at once; 0: it is started alone.
	wave int
	// alike: it is the same program as the entry, and answers at the same paths.
	alike bool
	// linking is what its owner knows of it, as in the agent's configuration; "": nothing.
	linking string
	proc    *process
}

var plans = map[string]plan{
	"account":   accountPlan,
	"collector": collectorPlan,
	"command":   commandPlan,
	"counter":   counterPlan,
	"hotel":     hotelPlan,
	"nginx":     nginxPlan,
	"shop":      shopPlan,
	"thesis":    thesisPlan,
	"thesis-2":  thesisChain(2),
	"thesis-3":  thesisChain(3),
}

// label names one process: the replicas of a service have its name, and all but
// the first of them a number.
func (s spec) label() string {
	if s.replica == 0 {
		return s.name
	}
	return fmt.Sprintf("%s-%d", s.name, s.replica+1)
}

func find(name string) (plan, error) {
	if service, ok := strings.CutPrefix(name, polyglotPrefix); ok {
		return polyglotPlan(service)
	}
	if proxy, ok := strings.CutPrefix(name, functionsPrefix); ok {
		return functionsPlan(proxy)
	}
	p, ok := plans[name]
	if !ok {
		return plan{}, fmt.Errorf("no chain %q: there are %s, and %s with a service of package polyglot, %s with one of its proxies", name, strings.Join(sortedKeys(plans), ", "), polyglotPrefix, functionsPrefix)
	}
	return p, nil
}

// Check says why Start would refuse the name or the options, nil if it would not.
func Check(name string, opts Options) error {
	p, err := find(name)
	if err != nil {
		return err
	}
	return p.accepts(opts)
}

// Absent says what a chain lacks on this machine, nil if it can be started; bin is as in Options.
func Absent(name, bin string) error {
	p, err := find(name)
	if err != nil {
		return err
	}
	if packages := missing(p.requires); len(packages) > 0 {
		return fmt.Errorf("Debian's package %s is not installed", packages[0].Package) //nolint:staticcheck // a name
	}
	if p.absent != nil {
		return p.absent(bin)
	}
	return nil
}

// accepts refuses options that the plan would not obey.
func (p plan) accepts(opts Options) error {
	if p.command {
		if opts.Command == nil {
			return errors.New("command: say how the service is started")
		}
		if err := opts.Command.valid(); err != nil {
			return err
		}
	}
	if !p.command && opts.Command != nil {
		return errors.New("command, health and port are for a command only: how its services are started is its own")
	}
	if opts.Path != "" && !p.choose && opts.Path != p.path {
		return fmt.Errorf("the path of its requests is its own (%s): leave the path %q out", p.path, opts.Path)
	}
	if opts.Path != "" && !strings.HasPrefix(opts.Path, "/") {
		return fmt.Errorf("the path %q must begin with a slash", opts.Path)
	}
	if len(opts.Env) > 0 && p.reserved == nil {
		return fmt.Errorf("its services know no instrumentation and take no environment: leave out %s",
			strings.Join(sortedKeys(opts.Env), ", "))
	}
	for _, key := range p.reserved {
		if _, ok := opts.Env[key]; ok {
			return fmt.Errorf("environment: %s is set by the laboratory: leave it out", key)
		}
	}
	return nil
}
