package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ab is ApacheBench: a closed loop of one thread that speaks HTTP/1.0 with
// keep-alive and asks for the same path with every request. It repeats requests
// whose kept connection was closed, and does not count them.
//
// In its results Latency is nil: ask Quantile, which knows every percent, of
// answers of any status. Lag is nil and Dials 0. Limits has a line for what ab
// does not tell.
type ab struct{}

func (ab) Program() (executable, debian string) { return "ab", "apache2-utils" }
func (ab) CanRate() bool                        { return false }
func (ab) CanPost() bool                        { return false }
func (ab) CanNumber() bool                      { return false }

// Start sends nothing yet: every Interval is a run of ab.
func (d ab) Start(_ context.Context, opts Options) (Session, error) {
	if opts.Requests == 0 && opts.Duration == 0 {
		opts.Duration = math.MaxInt64 // until Finish
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	switch {
	case opts.Rate > 0:
		return nil, errors.New("load: ab is a closed loop and cannot keep to a rate: take the generator of this package")
	case opts.Requests > 0 || opts.Close || opts.BodySize > 0 || opts.AppendBody != nil || opts.AppendHeader != nil || opts.Check != nil:
		return nil, errors.New("load: ab sends GET requests on connections that are kept, until it is stopped, and checks no answer: take the generator of this package")
	}
	for name, value := range opts.Header {
		if strings.TrimSpace(value) == "" {
			return nil, fmt.Errorf("load: header %q has no value, which ab cannot send", name)
		}
	}
	path, err := program(d)
	if err != nil {
		return nil, err
	}
	return &abSession{path: path, opts: opts, total: Result{Next: opts.First + 1, Errors: map[string]uint64{}}}, nil
}

type abSession struct {
	path  string // of the executable
	opts  Options
	total Result // of the intervals so far; without quantiles, which cannot be added up
}

// Interval runs ab for d, rounded up to the whole seconds that ab knows. When
// ctx ends, ab is killed and there is no result.
func (s *abSession) Interval(ctx context.Context, d time.Duration, during func(context.Context) error) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- during(ctx) }()
	r, err := s.run(ctx, d)
	if err != nil {
		cancel()
		<-done // it says no more than that it was cut off
		return Result{}, fmt.Errorf("load: ab: %w", err)
	}
	s.total.OK += r.OK
	s.total.Failed += r.Failed
	s.total.Offered += r.Offered
	s.total.Elapsed += r.Elapsed
	s.total.Limits = r.Limits
	for reason, n := range r.Errors {
		s.total.Errors[reason] += n
	}
	return r, <-done
}

// Finish is the sum of the intervals.
func (s *abSession) Finish() (Result, error) { return s.total, nil }

func (s *abSession) run(ctx context.Context, d time.Duration) (r Result, err error) {
	dir, err := os.MkdirTemp("", "load-ab-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	seconds := int(math.Ceil(d.Seconds()))
	cmd := exec.CommandContext(ctx, s.path, abArgs(&s.opts, seconds, dir)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case err != nil:
		return Result{}, fmt.Errorf("%w: %.300s", err, strings.TrimSpace(complaint.String()))
	}
	return readAb(seconds, dir, &out)
}

// abPerSecond bounds the requests of a second: ab reserves memory for all that
// there may be, and ends when it has sent them.
const abPerSecond = 200_000

func abArgs(o *Options, seconds int, dir string) []string {
	most := min(float64(abPerSecond)*float64(seconds), math.MaxInt32)
	args := []string{
		"-q",                        // no progress
		"-k",                        // keep connections
		"-l",                        // answers may differ in length
		"-r",                        // go on after an error
		"-t", strconv.Itoa(seconds), // first: it sets -n to 50000
		"-n", strconv.Itoa(max(int(most), o.Connections)),
		"-c", strconv.Itoa(o.Connections),
		"-s", strconv.Itoa(int(math.Ceil(o.Timeout.Seconds()))),
		"-e", abTable(dir),
	}
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		args = append(args, "-H", name+": "+o.Header[name])
	}
	return append(args, "http://"+o.Addr+string(o.AppendPath(nil, o.First)))
}

func abTable(dir string) string { return filepath.Join(dir, "percent.csv") }

func readAb(seconds int, dir string, out io.Reader) (Result, error) {
	r, err := abText(out)
	if err != nil {
		return r, err
	}
	if r.OK+r.Failed >= uint64(abPerSecond*seconds) && r.Elapsed < time.Duration(seconds)*time.Second {
		r.Limits = append(r.Limits, fmt.Sprintf("ab had sent all its %d requests after %v, before the end", r.OK+r.Failed, r.Elapsed))
	}
	if r.OK == 0 {
		return r, nil // its times are of nothing
	}
	f, err := os.Open(abTable(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return r, errors.New("it wrote no table of percentiles")
	} else if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }() // was only read
	r.quantiles, err = abPercentiles(f)
	return r, err
}

// Lines of ab's text.
var (
	abField   = regexp.MustCompile(`^(Complete requests|Failed requests|Non-2xx responses|Write errors|Time taken for tests): +([0-9.]+)(?: seconds)?$`)
	abReasons = regexp.MustCompile(`^ +\(Connect: ([0-9]+), Receive: ([0-9]+), Length: ([0-9]+), Exceptions: ([0-9]+)\)$`)
)

func abText(out io.Reader) (Result, error) {
	values := map[string]float64{}
	r := Result{Errors: map[string]uint64{}, Limits: []string{
		"ab's quantiles hold answers of any status; requests that it tried again on a new connection are not counted",
	}}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := abField.FindStringSubmatch(lines.Text()); m != nil {
			v, err := number(m[2])
			if err != nil {
				return Result{}, err
			}
			values[m[1]] = v
		} else if m := abReasons.FindStringSubmatch(lines.Text()); m != nil {
			for i, reason := range []string{"connect", "receive", "length", "exceptions"} {
				n, err := number(m[i+1])
				if err != nil {
					return Result{}, err
				}
				if n > 0 {
					r.Errors[reason] = uint64(n)
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Result{}, err
	}
	for _, key := range []string{"Complete requests", "Failed requests", "Time taken for tests"} {
		if _, ok := values[key]; !ok {
			return Result{}, fmt.Errorf("its output has no %q", key)
		}
	}
	if n := values["Non-2xx responses"]; n > 0 {
		r.Errors["status not 2xx"] = uint64(n)
	}
	if n := values["Write errors"]; n > 0 {
		r.Errors["write"] = uint64(n)
	}
	// One request may fail in several ways, and ab counts all of them: its
	// failures can be more than its requests.
	complete := uint64(values["Complete requests"])
	r.Failed = min(complete, uint64(values["Failed requests"])+uint64(values["Non-2xx responses"]))
	r.OK = complete - r.Failed
	r.Offered = complete
	r.Elapsed = time.Duration(min(values["Time taken for tests"], maxAbSeconds) * 1e9)
	return r, nil
}

// abPercentiles reads the file of -e: for each percent, from 0 to 100, ms.
func abPercentiles(in io.Reader) (all []quantile, err error) {
	lines := bufio.NewScanner(in)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "Percentage served,") {
		return nil, errors.Join(fmt.Errorf("no table of percentiles: %.80q", lines.Text()), lines.Err())
	}
	for lines.Scan() {
		percent, ms, ok := strings.Cut(lines.Text(), ",")
		p, err := number(percent)
		if err != nil || !ok || p > 100 {
			return nil, fmt.Errorf("no row of percentiles: %.80q", lines.Text())
		}
		d, err := duration(ms, time.Millisecond)
		if err != nil {
			return nil, err
		}
		all = append(all, quantile{p / 100, d})
	}
	return all, lines.Err()
}

// maxAbSeconds bounds what is believed of ab's output: 30 years.
const maxAbSeconds = 1e9

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
	if f *= unit.Seconds(); f > maxAbSeconds {
		return 0, fmt.Errorf("no time: %.40q", s)
	}
	return time.Duration(math.Round(f * 1e9)), nil
}
