package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ToolOptions describe a run of an external generator, with GET requests and
// connections that are kept. URL, Connections and Duration are required.
type ToolOptions struct {
	URL         string            // http://host:port/path
	Connections int               // requests in flight
	Rate        float64           // requests/s in all connections together; only hey; 0: closed loop
	Duration    time.Duration     // whole seconds: the tools' own unit
	Timeout     time.Duration     // of one request, in whole seconds; 0: 10 s
	Header      map[string]string // as in Options, but no value may be empty
}

// tool is an external generator.
type tool struct {
	debian string // package
	rated  bool   // can keep to a rate
	// args are the command line, read the output. dir is a directory for files
	// of the tool's, of this one run.
	args func(o *ToolOptions, dir string) ([]string, error)
	read func(o *ToolOptions, dir string, out io.Reader) (Result, error)
}

var tools = map[string]tool{
	"hey": {"hey", true, heyArgs, readHey},
	"wrk": {"wrk", false, wrkArgs, readWrk},
	"ab":  {"apache2-utils", false, abArgs, readAb},
}

// RunTool runs hey, wrk or ab, which must be installed, and returns what it
// says. When ctx ends, the tool is killed and there is no result. What the tools
// count differs from this package's own generator:
//
//   - hey counts latency from the actual send time, at a rate too: when the
//     service stalls, it sends less (coordinated omission). Its clock's unit in
//     the output is 100 µs; it tries idempotent requests again whose connection
//     was closed, and its output leaves out requests without an answer, so they
//     are not in Failed.
//   - wrk is a closed loop, takes 3xx for good, and adds to its latencies what it
//     guesses that coordinated omission took from them.
//   - ab is a closed loop of one thread that speaks HTTP/1.0 with keep-alive; it
//     tries again, and does not count, requests whose kept connection was closed.
//
// In wrk's and ab's result Latency is nil, and has answers of any status in its
// quantiles: ask Quantile; they report 0, 0.5, 0.75, 0.9, 0.95, 0.99 and 1 at
// least. Lag is nil, Dials and Next are not known and 0. For what a tool keeps to
// itself, Limits has a line.
//
// Errors: options that the tool does not have, such as a rate for wrk or ab; a
// tool that is not installed; one that fails, with what it wrote; and output that
// is not understood, of another version perhaps.
func RunTool(ctx context.Context, name string, opts ToolOptions) (Result, error) {
	t, err := findTool(name)
	if err != nil {
		return Result{}, err
	}
	if err := opts.validate(name, t); err != nil {
		return Result{}, err
	}
	path, err := t.find(name)
	if err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp("", "load-"+name+"-")
	if err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	r, err := t.run(ctx, path, dir, &opts)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return Result{}, fmt.Errorf("load: %s: %w", name, err)
	}
	return r, nil
}

// ToolAvailable returns nil if RunTool can run that tool here; else an error that
// names the Debian package to install, or the tools that there are.
func ToolAvailable(name string) error {
	t, err := findTool(name)
	if err == nil {
		_, err = t.find(name)
	}
	return err
}

func findTool(name string) (tool, error) {
	t, ok := tools[name]
	if !ok {
		return t, fmt.Errorf("load: no generator %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	}
	return t, nil
}

func (t tool) find(name string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", fmt.Errorf("load: %s is not installed: apt-get install %s: %w", name, t.debian, err)
	}
	return path, nil
}

func (o *ToolOptions) validate(name string, t tool) error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("load: %w", err)
	case u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("load: URL %q: want http://host:port/path", o.URL)
	case o.Connections < 1:
		return errors.New("load: need at least one connection")
	case o.Duration < time.Second || o.Duration%time.Second != 0:
		return fmt.Errorf("load: duration %v: want whole seconds", o.Duration)
	case o.Timeout < 0 || o.Timeout%time.Second != 0:
		return fmt.Errorf("load: timeout %v: want whole seconds", o.Timeout)
	case math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > MaxRate:
		return fmt.Errorf("load: rate %g: want 0 (closed loop) to %g requests/s", o.Rate, float64(MaxRate))
	case o.Rate > 0 && !t.rated:
		return fmt.Errorf("load: %s is a closed loop and cannot keep to a rate: take hey, or the generator of this package", name)
	}
	for name, value := range o.Header {
		if strings.TrimSpace(value) == "" {
			return fmt.Errorf("load: header %q has no value, which not all tools can send", name)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	return validateHeader(o.Header)
}

// headerArgs are the header as arguments of -H, which all tools share.
func (o *ToolOptions) headerArgs() (args []string) {
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		args = append(args, "-H", name+": "+o.Header[name])
	}
	return args
}

func (t tool) run(ctx context.Context, path, dir string, o *ToolOptions) (Result, error) {
	args, err := t.args(o, dir)
	if err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	r, readErr := t.read(o, dir, out)
	_, copyErr := io.Copy(io.Discard, out) // else it could block on what nobody reads
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case err != nil:
		return Result{}, fmt.Errorf("%w: %.300s", err, strings.TrimSpace(complaint.String()))
	}
	return r, errors.Join(readErr, copyErr)
}

// maxToolSeconds bounds what is believed of a tool's output: 30 years.
const maxToolSeconds = 1e9

// number reads a non-negative number.
func number(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1e15 {
		return 0, fmt.Errorf("no number: %.40q", s)
	}
	return f, nil
}

// duration reads a time in the given unit.
func duration(s string, unit time.Duration) (time.Duration, error) {
	f, err := number(s)
	if err != nil {
		return 0, err
	}
	if f *= unit.Seconds(); f > maxToolSeconds {
		return 0, fmt.Errorf("no time: %.40q", s)
	}
	return time.Duration(math.Round(f * 1e9)), nil
}
