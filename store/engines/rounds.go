package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// children are what the program runs of itself, each on one CPU.
var children = map[string]func(context.Context, []string) error{
	"measure": measureChild, "write": writeChild, "verify": verifyChild,
}

// comparison is what the flags ask for.
type comparison struct {
	spans, rounds int
	dir, commit   string
	engines       []*candidate
}

func (c *comparison) run(ctx context.Context) (*result, error) {
	batches := (c.spans + batchSpans - 1) / batchSpans
	r := newResult(c, batches*batchSpans)
	for i, e := range c.engines {
		size, err := addedSize(ctx, e)
		if err != nil {
			return nil, err
		}
		k, err := c.kill(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("%s: kill -9: %w", e.name, err)
		}
		r.Engines[i].AddedBytes, r.Engines[i].Killed = size, k
		fmt.Fprintf(os.Stderr, "%s: killed after %d batches\n", e.name, k.Acknowledged)
	}
	for round := range c.rounds {
		var want answers
		for i := range c.engines {
			// Another one is the first of each round.
			n := (i + round) % len(c.engines)
			m, got, err := c.measure(ctx, c.engines[n], batches)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.engines[n].name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s: %.0f spans/s\n", round+1, c.rounds, c.engines[n].name, m.Rate)
			if i == 0 {
				want = got
			} else if err := want.differ(got); err != nil {
				return nil, fmt.Errorf("%s answers differently than %s: %w", c.engines[n].name, c.engines[round%len(c.engines)].name, err)
			}
			r.Engines[n].Rounds = append(r.Engines[n].Rounds, m)
		}
	}
	return r.finish(), nil
}

// quantileTolerance is by how much quantiles of two engines may differ: each may
// be off by the 2% that Tare's store promises.
const quantileTolerance = 0.04

func (a answers) differ(b answers) error {
	switch {
	case len(a.Rare) != rareCount || len(a.Failed) == 0:
		return fmt.Errorf("searches find %d and %d traces", len(a.Failed), len(a.Rare))
	case !slices.Equal(a.Failed, b.Failed):
		return fmt.Errorf("a search finds %v, and %v", b.Failed, a.Failed)
	case !slices.Equal(a.Rare, b.Rare):
		return fmt.Errorf("a search finds %v, and %v", b.Rare, a.Rare)
	case len(a.Latencies) != len(b.Latencies):
		return fmt.Errorf("%d services, and %d", len(b.Latencies), len(a.Latencies))
	}
	for service, x := range a.Latencies {
		y := b.Latencies[service]
		if len(y) != len(x) || !reflect.DeepEqual(x[:2], y[:2]) {
			return fmt.Errorf("%s has spans and errors %v, and %v", service, y, x)
		}
		for i := 2; i < len(x); i++ {
			if d := y[i] - x[i]; max(d, -d) > quantileTolerance*x[i] {
				return fmt.Errorf("%s has quantiles %v, and %v", service, y[2:], x[2:])
			}
		}
	}
	return nil
}

// measure runs one engine once.
func (c *comparison) measure(ctx context.Context, e *candidate, batches int) (m measured, a answers, err error) {
	dir, err := os.MkdirTemp(c.dir, "engines-")
	if err != nil {
		return m, a, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var out answered
	err = c.ask(ctx, &out, "measure", e, dir, batches)
	return out.measured, out.Answers, err
}

// ask runs a child to its end and reads what it says.
func (c *comparison) ask(ctx context.Context, into any, what string, e *candidate, dir string, batches int) error {
	cmd := c.command(ctx, what, e, dir, batches)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), into)
}

func (c *comparison) command(ctx context.Context, what string, e *candidate, dir string, batches int) *exec.Cmd {
	number := slices.IndexFunc(candidates, func(x candidate) bool { return x.name == e.name })
	cmd := exec.CommandContext(ctx, "/proc/self/exe", what, strconv.Itoa(number), dir, strconv.Itoa(batches))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts a process that has one CPU only, C's threads and the kernel's work
// for it included: it inherits that from the thread that starts it.
func start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for cpu := range 64 * len(all) {
		if all.IsSet(cpu) {
			one.Zero() // the last one: interrupts tend to go to the first
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &all))
}

// addedSize is how much larger than without it a program is that opens the engine,
// without symbols and what debuggers need.
func addedSize(ctx context.Context, e *candidate) (size int64, err error) {
	dir, err := os.MkdirTemp("", "engines-size-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	of := func(name string) int64 {
		path := filepath.Join(dir, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path,
			"github.com/tare-trace/tare/store/engines/size/"+name)
		cmd.Stderr = os.Stderr
		if buildErr := cmd.Run(); buildErr != nil {
			err = errors.Join(err, fmt.Errorf("building %s: %w (run it in store/engines)", name, buildErr))
			return 0
		}
		info, statErr := os.Stat(path)
		if statErr != nil {
			err = errors.Join(err, statErr)
			return 0
		}
		return info.Size()
	}
	size = of(e.size) - of("none")
	return size, err
}
