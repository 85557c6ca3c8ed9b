package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// heyRows is how many requests hey remembers; it forgets the rest.
const heyRows = 1_000_000

func heyArgs(o *ToolOptions, _ string) ([]string, error) {
	args := []string{
		"-o", "csv",
		"-z", o.Duration.String(),
		"-c", strconv.Itoa(o.Connections),
		"-t", strconv.Itoa(int(o.Timeout.Seconds())),
		"-disable-redirects", "-disable-compression", // as our own generator
	}
	if o.Rate > 0 { // hey's is that of one worker
		args = append(args, "-q", strconv.FormatFloat(o.Rate/float64(o.Connections), 'f', -1, 64))
	}
	return append(append(args, o.headerArgs()...), o.URL), nil
}

// Columns of hey's CSV.
const (
	heyTime   = 0 // s
	heyStatus = 6
	heyOffset = 7 // of the beginning from hey's start, s
	heyHeader = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
)

func readHey(o *ToolOptions, _ string, out io.Reader) (Result, error) {
	lines := bufio.NewScanner(out)
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != heyHeader {
		return Result{}, errors.Join(fmt.Errorf("no CSV: %.80q", lines.Text()), lines.Err())
	}
	sum := newTally()
	elapsed := o.Duration
	for lines.Scan() {
		row := strings.Split(lines.Text(), ",")
		if len(row) != heyOffset+1 {
			return Result{}, fmt.Errorf("no row of CSV: %.80q", lines.Text())
		}
		took, err := duration(row[heyTime], time.Second)
		if err != nil {
			return Result{}, err
		}
		offset, err := duration(row[heyOffset], time.Second)
		if err != nil {
			return Result{}, err
		}
		status, err := strconv.Atoi(row[heyStatus])
		if err != nil || status < 100 || status > 999 {
			return Result{}, fmt.Errorf("no status: %.40q", row[heyStatus])
		}
		elapsed = max(elapsed, offset+took)
		sum.begun++
		if status/100 != 2 {
			sum.failed++
			sum.fail(statusError(status).Error(), 1)
			continue
		}
		sum.ok++
		record(sum.latency, took)
	}
	if err := lines.Err(); err != nil {
		return Result{}, err
	}
	if sum.begun == 0 {
		return Result{}, errors.New("not one request was answered")
	}
	r := Result{
		OK: sum.ok, Failed: sum.failed, Elapsed: elapsed, Offered: sum.begun,
		Latency: sum.latency, Errors: sum.errors,
		Limits: []string{"hey counts latency from the actual send time and does not report requests that got no answer"},
	}
	if o.Rate > 0 {
		r.Offered = uint64(math.Round(o.Rate * o.Duration.Seconds()))
		if missing := float64(r.Offered) - float64(sum.begun); missing >= 1 && missing >= tellMissing*float64(r.Offered) {
			r.Limits = append(r.Limits, fmt.Sprintf("rate not reached: %d of %d requests were sent and answered", sum.begun, r.Offered))
		}
	}
	if sum.begun >= heyRows {
		r.Limits = append(r.Limits, fmt.Sprintf("hey remembers no more than %d requests: there may have been more, and the throughput is too low", heyRows))
	}
	return r, nil
}
