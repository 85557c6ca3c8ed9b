package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/workloads"
)

// killed is what was there after kill -9.
type killed struct {
	Acknowledged int     `json:"acknowledged"`       // batches
	Lost         int     `json:"lost"`               // traces of these that are not there, of those looked up
	Partial      int     `json:"partial"`            // traces that lack spans
	LookedUp     int     `json:"looked_up"`          // traces
	Torn         bool    `json:"torn"`               // the batch that was not acknowledged is there in part
	Open         float64 `json:"open_ms"`            // recovery included
	Unopened     string  `json:"unopened,omitempty"` // why it did not open
}

// killAfter acknowledged batches, and then some time, the process is killed.
const killAfter = 30

// writeChild writes batches until it is killed, and says which are acknowledged.
func writeChild(ctx context.Context, args []string) error {
	e, dir, _, err := childArgs(args)
	if err != nil {
		return err
	}
	t, err := newTraffic()
	if err != nil {
		return err
	}
	s, err := e.open(dir)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := s.write(ctx, t.batch(n)); err != nil {
			return errors.Join(err, s.close())
		}
		if _, err := fmt.Println(n); err != nil {
			return errors.Join(err, s.close())
		}
	}
}

// verifyChild says what is there after so many acknowledged batches.
func verifyChild(ctx context.Context, args []string) error {
	e, dir, batches, err := childArgs(args)
	if err != nil {
		return err
	}
	k, err := verify(ctx, e, dir, batches)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(k)
}

// verify looks up a tenth of the batches' traces, and all of the last one's and
// of the one after it.
func verify(ctx context.Context, e *candidate, dir string, batches int) (killed, error) {
	k := killed{Acknowledged: batches}
	from := time.Now()
	s, err := e.open(dir)
	k.Open = ms(time.Since(from))
	if err != nil {
		k.Unopened = err.Error()
		return k, nil
	}
	after := 0
	for n := range uint64((batches + 1) * tracesPerBatch) {
		acknowledged := n < uint64(batches*tracesPerBatch)
		if n < uint64((batches-1)*tracesPerBatch) && n%10 != 0 {
			continue
		}
		k.LookedUp++
		td, err := s.trace(ctx, traceID(n))
		switch {
		case errors.Is(err, errNotFound):
			if acknowledged {
				k.Lost++
			}
			continue
		case err != nil:
			return k, errors.Join(err, s.close())
		case td.SpanCount() != workloads.SpansPerTrace:
			k.Partial++
		}
		if !acknowledged {
			after++
		}
	}
	k.Torn = after != 0 && after != tracesPerBatch
	return k, s.close()
}

// kill has an engine killed while it writes.
func (c *comparison) kill(ctx context.Context, e *candidate) (k killed, err error) {
	dir, err := os.MkdirTemp(c.dir, "engines-")
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := c.command(ctx, "write", e, dir, 0)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return k, err
	}
	if err := start(cmd); err != nil {
		return k, err
	}
	batches, lines := 0, bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			return k, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		if batches = n + 1; batches == killAfter {
			time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = cmd.Process.Kill() }) // it may be gone
		}
	}
	if err := cmd.Wait(); batches < killAfter || cmd.ProcessState.ExitCode() != -1 {
		return k, fmt.Errorf("it was not killed, after %d batches: %w", batches, err)
	}
	err = c.ask(ctx, &k, "verify", e, dir, batches)
	return k, err
}
