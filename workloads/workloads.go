// Package workloads starts the systems under test: chains of unmodified
// services (nginx, Python, redis, memcached) as child processes, each with its
// own configuration in a temporary directory and on free loopback ports, and
// stops them without a trace. It uses nothing of the distribution's
// configuration and touches none of its services. It refuses to know what is
// measured, or by whom: a chain runs the same with a tracer and without.
package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options of a chain; the zero value is good.
type Options struct {
	// Workers is the number of worker processes of every nginx; 0: 2.
	Workers int
	// ReadyWithin bounds the start of every service; 0: 10 s.
	ReadyWithin time.Duration
}

// Service is one service of a chain. PIDs and Exe are of its start.
type Service struct {
	Name string
	Port int
	PIDs []int  // the process that was started, then its descendants
	Exe  string // the executable that the first of them runs
}

// Chain is a running chain.
type Chain struct {
	Name     string
	Entry    string    // host:port that clients ask
	Services []Service // the entry first
	Dir      string    // configurations and logs; gone after Stop

	group  *Group
	specs  []spec
	path   string // of a request, up to its number
	within time.Duration
}

// A plan is what a chain consists of.
type plan struct {
	path     string // of a request, up to its number
	services []string
	specs    func(b *builder) ([]spec, error)
}

// A spec is how one service is started.
type spec struct {
	name string
	port int
	argv []string
	// workers is how many processes the first one starts; it may listen
	// before it has them.
	workers int
	proc    *process
}

var plans = map[string]plan{
	"nginx": nginxPlan,
	"shop":  shopPlan,
}

// Names of the chains, sorted.
func Names() []string {
	names := make([]string, 0, len(plans))
	for name := range plans {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func find(name string) (plan, error) {
	p, ok := plans[name]
	if !ok {
		return plan{}, fmt.Errorf("no chain %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return p, nil
}

// Start starts a chain and waits until every service accepts connections.
// When ctx ends before that, what was started is stopped. A chain ends with
// Stop, or with this process, however that ends.
func Start(ctx context.Context, name string, opts Options) (*Chain, error) {
	p, err := find(name)
	if err != nil {
		return nil, err
	}
	if opts.Workers == 0 {
		opts.Workers = 2
	}
	if opts.ReadyWithin == 0 {
		opts.ReadyWithin = 10 * time.Second
	}
	group, err := NewGroup("tare-" + name)
	if err != nil {
		return nil, err
	}
	c := &Chain{Name: name, Dir: group.Dir, group: group, path: p.path, within: opts.ReadyWithin}
	if err := c.start(ctx, p, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("chain %s: %w", name, err), group.Stop())
	}
	return c, nil
}

func (c *Chain) start(ctx context.Context, p plan, opts Options) error {
	ports, err := freePorts(len(p.services))
	if err != nil {
		return err
	}
	b := &builder{dir: c.Dir, workers: opts.Workers, ports: map[string]int{}}
	for i, name := range p.services {
		b.ports[name] = ports[i]
	}
	if c.specs, err = p.specs(b); err != nil {
		return err
	}
	// From the last to the first: who asks others finds them there.
	for i := range slices.Backward(c.specs) {
		if err := c.launch(ctx, &c.specs[i]); err != nil {
			return err
		}
	}
	for _, s := range c.specs {
		service, err := s.service()
		if err != nil {
			return err
		}
		c.Services = append(c.Services, service)
	}
	c.Entry = loopback(c.specs[0].port)
	return nil
}

func (c *Chain) launch(ctx context.Context, s *spec) error {
	p, err := c.group.start(s.name, s.argv)
	if err != nil {
		return err
	}
	s.proc = p
	return s.ready(ctx, c.within)
}

// Restart stops one service as its operator would, with SIGTERM, and starts
// it again on the same port. Other services may be asked meanwhile; their
// requests to this one fail.
func (c *Chain) Restart(ctx context.Context, service string) error {
	i := slices.IndexFunc(c.specs, func(s spec) bool { return s.name == service })
	if i < 0 {
		return fmt.Errorf("chain %s has no service %q", c.Name, service)
	}
	s := &c.specs[i]
	if err := s.proc.stop(); err != nil {
		return err
	}
	if err := c.launch(ctx, s); err != nil {
		return err
	}
	again, err := s.service()
	if err != nil {
		return err
	}
	c.Services[i] = again
	return nil
}

// Stop ends all processes of the chain and removes its directory. It may be
// called more than once.
func (c *Chain) Stop() error { return c.group.Stop() }

// AppendPath appends the path of request n: every number is a request of its
// own, and every service names its part of the work by it.
func (c *Chain) AppendPath(dst []byte, n uint64) []byte {
	return strconv.AppendUint(append(dst, c.path...), n, 10)
}

// Port finds the port of a service, 0 if there is none of this name.
func (c *Chain) Port(service string) int {
	for _, s := range c.Services {
		if s.Name == service {
			return s.Port
		}
	}
	return 0
}
