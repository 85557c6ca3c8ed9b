package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tare-trace/tare/lab/record"
)

// mostDiagnosed bounds the traces that are diagnosed, the newest first.
const mostDiagnosed = 20_000

// diagnose has `tare diagnose` read the spans of a checked run, and compares the services
// that it names with those that were late.
func (r *run) diagnose(ctx context.Context) error {
	if !r.job.Workload.Diagnose || !r.kept || r.job.Kind != record.Checked || r.rec.Values[record.SpansReceived] == 0 {
		return nil
	}
	path := filepath.Join(r.stage.dir, "diagnosed.pb")
	defer func() { _ = os.Remove(path) }() // the stage removes it, at the latest
	if err := r.writeSpans(path); err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.stage.Tare, "diagnose", "--json", "--traces", strconv.Itoa(mostDiagnosed), path) //nolint:gosec // our own
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("tare diagnose: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	found, err := readDiagnosis(out)
	if err != nil {
		return err
	}
	found.Late = r.chain.Late
	r.rec.Diagnosis = found
	score(found, r.rec.Values)
	return nil
}

// writeSpans writes all spans that were kept as one message of OTLP.
func (r *run) writeSpans(path string) error {
	f, err := os.Create(filepath.Clean(path))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	return errors.Join(r.stage.sink.Write(out), out.Flush(), f.Close())
}

// readDiagnosis takes from the answer which services are named, by any entry operation, and
// what is said in words. Time between two services is neither's.
func readDiagnosis(answer []byte) (*record.Diagnosis, error) {
	var d struct {
		Entries []struct {
			Service   string
			Operation string
			Verdict   struct {
				Status string
				Text   string
				Causes []struct{ Kind, Service, From string }
			}
		}
	}
	if err := json.Unmarshal(answer, &d); err != nil {
		return nil, fmt.Errorf("tare diagnose: %w", err)
	}
	found := &record.Diagnosis{Named: []string{}}
	for _, e := range d.Entries {
		found.Verdicts = append(found.Verdicts, e.Service+" "+e.Operation+": "+e.Verdict.Text)
		if e.Verdict.Status != "found" {
			continue
		}
		for _, c := range e.Verdict.Causes {
			name := c.Service
			if c.Kind == "between" {
				name = c.From + " to " + c.Service
			}
			if !slices.Contains(found.Named, name) {
				found.Named = append(found.Named, name)
			}
		}
	}
	if len(found.Named) > 0 {
		found.First = found.Named[0]
	}
	slices.Sort(found.Named)
	return found, nil
}

// score says which share of the named services were late, which share of the late ones is
// named, and whether the first one was late: where there are any.
func score(d *record.Diagnosis, values map[string]float64) {
	right := 0.0
	for _, name := range d.Named {
		if slices.Contains(d.Late, name) {
			right++
		}
	}
	if len(d.Named) > 0 {
		values[record.CausePrecision] = right / float64(len(d.Named))
	}
	if len(d.Late) > 0 {
		values[record.CauseRecall] = right / float64(len(d.Late))
		values[record.CauseFirst] = 0
		if slices.Contains(d.Late, d.First) {
			values[record.CauseFirst] = 1
		}
	}
}
