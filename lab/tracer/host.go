package tracer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/tare-trace/tare/lab/experiment"
)

// NotOffered says that this kernel lacks what a tracer needs, where another kernel
// has it: nothing is wrong with the tracer or its installation.
type NotOffered struct{ Reason string }

func (e *NotOffered) Error() string { return "this kernel does not offer it: " + e.Reason }

// Host is the machine that tracers run on. What its kernel offers is asked once, of
// `tare doctor`, which tries it.
type Host struct {
	tare string
	mu   sync.Mutex
	told *diagnosis
}

// NewHost asks this executable of tare.
func NewHost(tare string) *Host { return &Host{tare: tare} }

// diagnosis is the part of the doctor's answer that is used.
type diagnosis struct {
	Tiers    []tier    `json:"tiers"`
	Features []feature `json:"features"`
}

// tier is a set of the agent's kernel programs.
type tier struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Program string `json:"program"` // that is refused
	Hook    string `json:"hook"`
	Error   string `json:"error"`
}

// feature is what an option of the agent needs beside a tier.
type feature struct {
	Name   string `json:"name"`
	Option string `json:"option"`
	State  string `json:"state"`
	Error  string `json:"error"`
}

const refused = "refused"

// offers is nil if the kernel has what these flags of the agent need.
func (h *Host) offers(ctx context.Context, t *experiment.Tracer) error {
	if len(t.Flags) == 0 {
		return nil
	}
	d, err := h.ask(ctx)
	if err != nil {
		return err
	}
	return d.offers(t)
}

func (h *Host) ask(ctx context.Context) (*diagnosis, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told != nil {
		return h.told, nil
	}
	cmd := exec.CommandContext(ctx, h.tare, "doctor", "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	// Status 1 stands for a host that no tier works on, with the whole answer.
	out, failed := cmd.Output()
	d, err := parseDiagnosis(out)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("`tare doctor --json`: %w", err), failed, errors.New(strings.TrimSpace(stderr.String())))
	}
	h.told = d
	return d, nil
}

func parseDiagnosis(b []byte) (*diagnosis, error) {
	var d diagnosis
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	if len(d.Tiers) == 0 {
		return nil, errors.New("it names no tier")
	}
	return &d, nil
}

func (d *diagnosis) offers(t *experiment.Tracer) error {
	flags := options(t.Flags)
	for _, f := range flags {
		name, ok := strings.CutPrefix(f, "--tier ")
		if !ok || name == "auto" {
			continue
		}
		i := slices.IndexFunc(d.Tiers, func(t tier) bool { return t.Name == name })
		if i < 0 {
			return fmt.Errorf("tracer %s: flags: there is no tier %q: `tare doctor` shows those that there are", t.Name, name)
		}
		if x := d.Tiers[i]; x.State == refused {
			reason := x.Error
			if x.Program != "" {
				reason = fmt.Sprintf("%s at %s: %s", x.Program, x.Hook, x.Error)
			}
			return &NotOffered{reason}
		}
	}
	for _, x := range d.Features {
		if x.State == refused && slices.Contains(flags, x.Option) {
			return &NotOffered{x.Name + ": " + x.Error}
		}
	}
	return nil
}

// options are flags with their values, as the doctor writes them: "--tag ip".
func options(flags []string) (out []string) {
	for i := 0; i < len(flags); i++ {
		f := strings.Replace(flags[i], "=", " ", 1)
		if f == flags[i] && i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "-") {
			i++
			f += " " + flags[i]
		}
		out = append(out, f)
	}
	return out
}
