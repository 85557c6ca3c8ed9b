// Package workloads starts the systems under test as child processes, each with
// its own configuration in a temporary directory and on free ports, on loopback
// or in a network namespace of its own, and stops them without leaving anything
// behind: chains of unmodified services (nginx, Python, redis, memcached),
// instrumented Go services (thesis, counter), and a command of the user's. It
// uses nothing of the distribution's configuration and touches none of its
// services. It refuses to know whether and what is measured: a chain runs the
// same with a tracer and without.
package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/tare-trace/tare/workloads/planted"
)

// Options of a chain; the zero value is good.
type Options struct {
	// Workers is the number of worker processes of every nginx; 0: 2.
	Workers int
	// Command is how the service of chain "command" is started; the others
	// take none.
	Command *Command
	// ReadyWithin bounds the start of every service; 0: a minute, for where a
	// processor is emulated or busy.
	ReadyWithin time.Duration
	// Network is where the services under test run; nil: on loopback, beside
	// the caller. It is the caller's to close, after Stop.
	Network *Network
	// Env is added to the environment of services that are instrumented
	// (thesis, counter, hotel, command). The others take none: an error.
	Env map[string]string
	// Path of every request where the chain lets the caller choose (thesis,
	// command); "": the chain's own.
	Path string
	// Bin is the directory with the executables tare-thesis, tare-counter and tare-hotel;
	// "": beside the running executable, then in PATH.
	Bin string
}

// Service is one service of a chain, or one of several replicas that have its name. PIDs and Exe are of its start.
type Service struct {
	Name string
	Host string // address that it listens on
	Port int
	// Metrics is the port of its Prometheus endpoint, 0 if it has none.
	Metrics int
	PIDs    []int  // the process that was started, then its descendants
	Exe     string // the executable that the first of them runs
	// Dependency marks a service that is only asked by the one under test,
	// as another host would be (the redis of counter).
	Dependency bool
	// Proxy marks one that only passes requests on to the service beside it.
	Proxy bool
	// Alike: it is the same program as the entry (of the first that is no proxy), and answers at the same paths.
	Alike bool
	// Linking is how its receives are linked to its sends, as its owner tells the agent; "": the agent finds out, and
	// leaves the first calls unlinked.
	Linking string
}

// Chain is a running chain.
type Chain struct {
	Name     string
	Entry    string    // host:port that clients ask
	Services []Service // the entry first
	Truth    Truth     // of its traces, if its requests are numbered; else nil
	// Unlinked: its calls may not be linked to their requests, and then begin traces of their own.
	Unlinked bool
	Late     []string // services that answer some requests late, as the environment says
	Dir      string   // configurations and logs; gone after Stop
	// AppendBody makes the body of a request and Header is sent with it; nil:
	// the requests of this chain have no body.
	AppendBody func(dst []byte, n uint64) []byte
	Header     map[string]string
	// AppendHeader makes fields of a request; nil: all have the same.
	AppendHeader func(dst []byte, n uint64) []byte
	// Planted: request n holds the values of package planted of that number.
	Planted bool

	group  *Group
	specs  []spec
	path   string                // of a request, up to its number
	paths  func(n uint64) string // instead of it; nil: all have the same
	fixed  bool                  // path is the whole path
	within time.Duration
}

// Start starts a chain and waits until every service is ready. When ctx ends
// before that, what was started is stopped. A chain ends with Stop, or with
// this process, however that ends.
func Start(ctx context.Context, name string, opts Options) (*Chain, error) {
	p, err := find(name)
	if err != nil {
		return nil, err
	}
	if opts.Command != nil && opts.Command.Name != "" {
		name = opts.Command.Name
	}
	if err := p.accepts(opts); err != nil {
		return nil, fmt.Errorf("chain %s: %w", name, err)
	}
	opts.Workers = cmp.Or(opts.Workers, 2)
	opts.ReadyWithin = cmp.Or(opts.ReadyWithin, time.Minute)
	opts.Path = cmp.Or(opts.Path, p.path)
	group, err := NewGroup("tare-" + name)
	if err != nil {
		return nil, err
	}
	c := &Chain{Name: name, Dir: group.Dir, group: group, path: opts.Path, paths: p.paths, fixed: p.fixed, within: opts.ReadyWithin, Truth: p.truth, Unlinked: p.unlinked}
	if p.late != nil {
		c.Late = p.late(opts.Env)
	}
	if err := c.start(ctx, p, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("chain %s: %w", name, err), group.Stop())
	}
	return c, nil
}

func (c *Chain) start(ctx context.Context, p plan, opts Options) error {
	names := slices.Concat(p.services, p.more)
	ports, err := freePorts(opts.Network, len(names))
	if err != nil {
		return err
	}
	b := newBuilder(c.Dir, opts)
	for i, name := range names {
		b.ports[name] = ports[i]
	}
	if p.traffic {
		c.AppendBody = newTraffic().AppendBody
		c.Header = map[string]string{"Content-Type": "application/x-protobuf"}
	}
	if p.planted {
		c.Planted = true
		c.AppendHeader, c.AppendBody = planted.AppendHeader, planted.AppendBody
		c.Header = map[string]string{"Content-Type": "application/json"}
	}
	if p.requestID {
		c.AppendHeader = requestIDs()
	}
	if c.specs, err = p.specs(b); err != nil {
		return err
	}
	// From the last to the first: who asks others finds them there.
	for end := len(c.specs); end > 0; {
		begin := end - 1
		for begin > 0 && c.specs[begin].wave != 0 && c.specs[begin-1].wave == c.specs[begin].wave {
			begin--
		}
		if err := c.launch(ctx, c.specs[begin:end]); err != nil {
			return err
		}
		end = begin
	}
	for _, s := range c.specs {
		service, err := s.service()
		if err != nil {
			return err
		}
		c.Services = append(c.Services, service)
	}
	c.Entry = c.specs[0].address()
	return nil
}

// launch starts services at once, and returns when all of them are ready.
func (c *Chain) launch(ctx context.Context, specs []spec) error {
	for i := range specs {
		s := &specs[i]
		argv, err := s.network.command(s.argv)
		if err != nil {
			return err
		}
		if s.proc, err = c.group.launch(command{name: s.label(), argv: argv, env: s.env, dir: s.dir}); err != nil {
			return err
		}
	}
	for i := range specs {
		if err := specs[i].ready(ctx, c.within); err != nil {
			return err
		}
	}
	return nil
}

// Restart stops one service (of replicas, the second is NAME-2) as its operator would, with SIGTERM, and starts
// it again on the same port. Other services may be asked meanwhile; their
// requests to this one fail.
func (c *Chain) Restart(ctx context.Context, service string) error {
	i := slices.IndexFunc(c.specs, func(s spec) bool { return s.label() == service })
	if i < 0 {
		return fmt.Errorf("chain %s has no service %q", c.Name, service)
	}
	s := &c.specs[i]
	if err := s.proc.stop(); err != nil {
		return err
	}
	if err := c.launch(ctx, c.specs[i:i+1]); err != nil {
		return err
	}
	again, err := s.service()
	if err != nil {
		return err
	}
	c.Services[i] = again
	return nil
}

// CanBeLate reports whether services of a chain can be made late.
func CanBeLate(chain string) bool { return plans[chain].late != nil }

// Stop ends all processes of the chain and removes its directory. It may be
// called more than once.
func (c *Chain) Stop() error { return c.group.Stop() }

// CPU is the CPU time of the services that have ended.
func (c *Chain) CPU() time.Duration { return c.group.CPU() }

// PIDs are the processes of the services under test as they are now, their
// descendants included; dependencies and proxies are left out. It is empty after Stop,
// and must not be asked while Restart runs.
func (c *Chain) PIDs() []int {
	return c.pids(func(s spec) bool { return !s.dependency && !s.proxy })
}

// ProxyPIDs are those of the proxies, likewise.
func (c *Chain) ProxyPIDs() []int { return c.pids(func(s spec) bool { return s.proxy }) }

// Proxies is how many of the services are proxies.
func (c *Chain) Proxies() (n int) {
	for _, s := range c.Services {
		if s.Proxy {
			n++
		}
	}
	return n
}

// Front is the first service that is no proxy, and those after it.
func (c *Chain) Front() (first Service, others []Service) {
	for i, s := range c.Services {
		if !s.Proxy {
			return s, c.Services[i+1:]
		}
	}
	return Service{}, nil
}

func (c *Chain) pids(wanted func(spec) bool) []int {
	var roots []int
	for _, s := range c.specs {
		select {
		case <-s.proc.done: // its pid may be another's by now
		default:
			if wanted(s) {
				roots = append(roots, s.proc.cmd.Process.Pid)
			}
		}
	}
	pids, err := descendants(roots...)
	if err != nil {
		return roots // only without /proc
	}
	return pids
}

// AppendPath appends the path of request n. In a chain of unmodified services
// the path holds the number, and every service repeats it in the requests that
// it sends; in other chains all requests have the same path.
func (c *Chain) AppendPath(dst []byte, n uint64) []byte {
	if c.paths != nil {
		dst = append(dst, c.paths(n)...)
	} else {
		dst = append(dst, c.path...)
	}
	if c.fixed {
		return dst
	}
	return strconv.AppendUint(dst, n, 10)
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

func (s *spec) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }
