package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// wrkScript has wrk say at its end what its own text rounds, or leaves out: the
// 95th percentile, and the counts one by one. It has no function that is called
// for each request, so it costs none of them anything.
const wrkScript = `done = function(summary, latency, requests)
  local e = summary.errors
  local function say(key, value) io.write(string.format("tare %s %.0f\n", key, value)) end
  io.write("\n")
  say("requests", summary.requests)
  say("duration", summary.duration)
  say("connect", e.connect)
  say("read", e.read)
  say("write", e.write)
  say("timeout", e.timeout)
  say("status", e.status)
  say("q0", latency.min)
  for _, p in ipairs({50, 75, 90, 95, 99, 99.9}) do say("q" .. p, latency:percentile(p)) end
  say("q100", latency.max)
  io.write("tare end 0\n")
end
`

func wrkArgs(o *ToolOptions, dir string) ([]string, error) {
	script := filepath.Join(dir, "done.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o600); err != nil {
		return nil, err
	}
	// wrk gives each thread the same number of connections and forgets the rest.
	threads := max(1, min(o.Connections, runtime.GOMAXPROCS(0)/2, maxLoops))
	for o.Connections%threads != 0 {
		threads--
	}
	args := []string{
		"--threads", strconv.Itoa(threads),
		"--connections", strconv.Itoa(o.Connections),
		"--duration", strconv.Itoa(int(o.Duration.Seconds())) + "s",
		"--timeout", strconv.Itoa(int(o.Timeout.Seconds())) + "s",
		"--script", script,
	}
	return append(append(args, o.headerArgs()...), o.URL), nil
}

func readWrk(_ *ToolOptions, _ string, out io.Reader) (Result, error) {
	values, quantiles, err := wrkValues(out)
	if err != nil {
		return Result{}, err
	}
	for _, key := range []string{"requests", "duration", "connect", "read", "write", "timeout", "status"} {
		if _, ok := values[key]; !ok {
			return Result{}, fmt.Errorf("its script did not say %q", key)
		}
	}
	answers, status := uint64(values["requests"]), uint64(values["status"])
	if status > answers {
		return Result{}, fmt.Errorf("%d of %d answers are of a wrong status", status, answers)
	}
	r := Result{
		OK:      answers - status,
		Failed:  status,
		Elapsed: time.Duration(min(values["duration"], maxToolSeconds*1e6)) * time.Microsecond,
		Errors:  map[string]uint64{},
		Limits:  []string{"wrk's quantiles hold answers of any status, and its own correction for coordinated omission"},
	}
	for _, key := range []string{"connect", "read", "write", "timeout"} {
		if n := uint64(values[key]); n > 0 {
			r.Failed += n
			r.Errors[key] = n
		}
	}
	if status > 0 {
		r.Errors["status above 399"] = status
	}
	r.Offered = r.OK + r.Failed
	if answers > 0 {
		r.quantiles = quantiles
	}
	return r, nil
}

// wrkValues collects what the script wrote; times are in µs.
func wrkValues(out io.Reader) (values map[string]float64, quantiles []quantile, err error) {
	values = map[string]float64{}
	lines := bufio.NewScanner(out)
	ended := false
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) != 3 || field[0] != "tare" {
			continue
		}
		if field[1] == "end" {
			ended = true
			continue
		}
		if p, is := strings.CutPrefix(field[1], "q"); is {
			percent, err := number(p)
			if err != nil || percent > 100 {
				return nil, nil, fmt.Errorf("no percentile: %.40q", field[1])
			}
			d, err := duration(field[2], time.Microsecond)
			if err != nil {
				return nil, nil, err
			}
			quantiles = append(quantiles, quantile{percent / 100, d})
			continue
		}
		if values[field[1]], err = number(field[2]); err != nil {
			return nil, nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, err
	}
	if !ended {
		return nil, nil, errors.New("its script did not come to an end")
	}
	return values, quantiles, nil
}
