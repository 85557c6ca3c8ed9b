package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/tare-trace/tare/agent/tier"
)

// Load loads and attaches a tier: the one that is asked for, else the first that this
// kernel takes. Entry sockets take no decisions until EnableEntry, so that open
// connections can be armed first.
func Load(o Options) (*Tracer, error) {
	candidates, err := tier.Candidates(o.Tier)
	if err != nil {
		return nil, err
	}
	l, err := newLoader(o)
	if err != nil {
		return nil, err
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return choose(candidates, l.load, log)
}

func newLoader(o Options) (*loader, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise RLIMIT_MEMLOCK (needed before Linux 5.11): %w", err)
	}
	if o.ArmNV {
		if err := loadNV(); err != nil {
			return nil, err
		}
	}
	return &loader{options: o, cache: btf.NewCache()}, nil
}

// choose takes the first tier that loads.
func choose(candidates []*tier.Tier, load func(*tier.Tier) (*Tracer, error), log *slog.Logger) (*Tracer, error) {
	var refused []error
	for _, c := range candidates {
		log.Info("loading kernel programs", "tier", c.Name)
		begin := time.Now()
		t, err := load(c)
		seconds := slog.Float64("seconds", float64(time.Since(begin).Milliseconds())/1000)
		if err == nil {
			log.Info("kernel programs are attached", "tier", c.Name, seconds)
			return t, nil
		}
		log.Info("tier is not available on this kernel", "tier", c.Name, seconds, "reason", err)
		refused = append(refused, err)
	}
	return nil, fmt.Errorf("%w\n`tare doctor` tells which tiers work here", errors.Join(refused...))
}

// Attempt is how far a tier works here.
type Attempt struct {
	Tier *tier.Tier
	Lost []tier.Loss // what it does without
	Err  error       // why it does not work at all; a *Refusal, if the tier was tried
}

// Try loads and attaches every tier as Load does, one after the other, and removes it
// again. No process is traced meanwhile.
func Try(o Options) []Attempt {
	l, err := newLoader(o)
	list := make([]Attempt, len(tier.All))
	for i := range tier.All {
		list[i] = Attempt{Tier: &tier.All[i], Err: err}
		if err != nil {
			continue
		}
		t, err := l.load(&tier.All[i])
		if err != nil {
			list[i].Err = err
			continue
		}
		list[i].Lost = t.Lost()
		_ = t.Close()
	}
	return list
}

// Refusal is why a tier does not work here.
type Refusal struct {
	Tier    string
	Program string // "": of no program in particular
	Hook    tier.Hook
	Reason  string // in the kernel's words, on one line
	cause   error
}

func (r *Refusal) Error() string {
	if r.Program == "" {
		return fmt.Sprintf("tier %s: %s", r.Tier, r.Reason)
	}
	return fmt.Sprintf("tier %s: %s at %v: %s", r.Tier, r.Program, r.Hook, r.Reason)
}

// Unwrap is the error as the library has it, with the verifier's whole log.
func (r *Refusal) Unwrap() error { return r.cause }

// words are an error on one line: of a verifier's log the last line, which says what is
// wrong, with the source line that it is about.
func words(err error) string {
	var v *ebpf.VerifierError
	if !errors.As(err, &v) {
		line := strings.ReplaceAll(err.Error(), "\n", "; ")
		if named, ok := strings.CutPrefix(line, "program "); ok { // which is told beside
			_, line, _ = strings.Cut(named, ": ")
		}
		// The library guesses at the reason of every EPERM; the limit was raised.
		line, _, _ = strings.Cut(line, " (MEMLOCK may be too low")
		return line
	}
	last, source := "", ""
	for i := len(v.Log) - 1; i >= 0 && source == ""; i-- {
		line := strings.TrimSpace(v.Log[i])
		comment, isSource := strings.CutPrefix(line, "; ")
		switch {
		case isSource:
			source = comment
		case last == "" && line != "" && !summary(line):
			last = line
		}
	}
	text := v.Cause.Error()
	if last != "" {
		text += ": " + last
	}
	if source != "" {
		text += " (" + source + ")"
	}
	return text
}

// summary: the line counts what the verifier did.
func summary(line string) bool {
	for _, prefix := range []string{"processed ", "verification time ", "stack depth "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}
