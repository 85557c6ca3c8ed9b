package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Driver is a way to send load. Each is one file that implements Driver and
// stands in the table below.
type Driver interface {
	// Program is the executable that it runs and the Debian package that has
	// it; "" if it runs none.
	Program() (executable, debian string)
	// CanRate reports whether it can send requests at a rate; else it is a
	// closed loop.
	CanRate() bool
	// CanPost reports whether its requests can have bodies.
	CanPost() bool
	// CanNumber reports whether each request has a number of its own, by which
	// its trace can be compared with the ground truth.
	CanNumber() bool
	// Start begins to send load. It fails if the driver cannot send such a load.
	Start(ctx context.Context, opts Options) (Session, error)
}

// Session is load that is being sent.
type Session interface {
	// Interval calls during while load is sent, and returns what was answered
	// meanwhile. during must take d, more or less: a program that sends the
	// load has to be told how long in advance.
	Interval(ctx context.Context, d time.Duration, during func(context.Context) error) (Result, error)
	// Finish ends the load, or waits for its last request if Options.Requests
	// says how many there are, and returns the result of the whole run.
	Finish() (Result, error)
}

// drivers by their names in an experiment file.
var drivers = map[string]Driver{
	"":   own{},
	"ab": ab{},
}

// Find finds a driver; "" is this package's own generator.
func Find(name string) (Driver, error) {
	d, ok := drivers[name]
	if !ok {
		names := slices.Sorted(maps.Keys(drivers))[1:] // the first is ""
		return nil, fmt.Errorf("no load generator %q: there are %s; without a name, it is the laboratory's own", name, strings.Join(names, ", "))
	}
	return d, nil
}

// Available says why the driver cannot send load on this machine, nil if it can.
func Available(d Driver) error {
	_, err := program(d)
	return err
}

// program is the path of the executable that the driver runs, if it runs one.
func program(d Driver) (string, error) {
	name, debian := d.Program()
	if name == "" {
		return "", nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("load: %s is not installed: apt-get install %s: %w", name, debian, err)
	}
	return path, nil
}

// own is this package's generator.
type own struct{}

func (own) Program() (executable, debian string) { return "", "" }
func (own) CanRate() bool                        { return true }
func (own) CanPost() bool                        { return true }
func (own) CanNumber() bool                      { return true }

// Start sends load until Finish, where the options have no end.
func (own) Start(ctx context.Context, opts Options) (Session, error) {
	if opts.Requests == 0 && opts.Duration == 0 {
		opts.Duration = math.MaxInt64
	}
	g, err := Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Interval is what is answered while during runs.
func (g *Generator) Interval(ctx context.Context, _ time.Duration, during func(context.Context) error) (Result, error) {
	g.Mark()
	err := during(ctx)
	return g.Mark(), err
}

// Finish is Stop, unless the number of requests is the end, and Wait.
func (g *Generator) Finish() (Result, error) {
	if g.opts.Requests == 0 {
		g.Stop()
	}
	return g.Wait()
}
