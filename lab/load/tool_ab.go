package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// abPerSecond bounds the requests of a second: ab reserves memory for all that
// there may be, and ends when it has sent them.
const abPerSecond = 200_000

func abArgs(o *ToolOptions, dir string) ([]string, error) {
	seconds := int(o.Duration.Seconds())
	most := min(float64(abPerSecond)*float64(seconds), math.MaxInt32)
	args := []string{
		"-q",                        // no progress
		"-k",                        // keep connections
		"-l",                        // answers may differ in length
		"-r",                        // go on after an error
		"-t", strconv.Itoa(seconds), // first: it sets -n to 50000
		"-n", strconv.Itoa(max(int(most), o.Connections)),
		"-c", strconv.Itoa(o.Connections),
		"-s", strconv.Itoa(int(o.Timeout.Seconds())),
		"-e", abTable(dir),
	}
	url := o.URL
	if rest := strings.TrimPrefix(url, "http://"); !strings.Contains(rest, "/") {
		url += "/" // ab insists
	}
	return append(append(args, o.headerArgs()...), url), nil
}

func abTable(dir string) string { return filepath.Join(dir, "percent.csv") }

func readAb(o *ToolOptions, dir string, out io.Reader) (Result, error) {
	r, err := abText(out)
	if err != nil {
		return r, err
	}
	if r.OK+r.Failed >= uint64(abPerSecond*o.Duration.Seconds()) && r.Elapsed < o.Duration {
		r.Limits = append(r.Limits, fmt.Sprintf("ab had sent all its %d requests after %v, before the end", r.OK+r.Failed, r.Elapsed))
	}
	if r.OK == 0 {
		return r, nil // its times are of nothing
	}
	// ab writes the file just before it ends, which is when out ends.
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
	r.Elapsed = time.Duration(min(values["Time taken for tests"], maxToolSeconds) * 1e9)
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
