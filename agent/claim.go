package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tare-trace/tare/agent/claim"
	"github.com/tare-trace/tare/agent/platform"
)

const (
	// A request that was under way when this agent was attached has no beginning here:
	// before requests begin here, they are given time to end at the agent before.
	settling = time.Second
	notice   = 500 * time.Millisecond // that the agent before gets of the moment
	// After the moment, requests that had arrived are still to be read, and those in
	// flight to be answered.
	lingering = 2 * time.Second
	draining  = 10 * time.Second
)

var errSucceeded = errors.New("another agent has taken over")

// claimHost makes sure that this host is not traced twice.
func (a *Agent) claimHost(ctx context.Context) (err error) {
	cfg := a.cfg.Load()
	if err := platform.HostPIDs(); err != nil {
		return err
	}
	if a.cgroup, err = platform.CgroupV2(); err != nil {
		return err
	}
	if missing := platform.Missing(); len(missing) > 0 {
		return fmt.Errorf("services would go untraced: run as root, or with %s", strings.Join(missing, ", "))
	}
	a.claim, a.before, err = claim.Take(ctx, claim.Options{Instance: cfg.Instance, Cgroup: a.cgroup, Replaceable: a.opts.Consume == nil}, cfg.Replace)
	return err
}

// lower gives up what tracing does not need. `tare run` keeps it: its store may be
// anybody's. What the agent runs in may refuse that, having a list of its own.
func (a *Agent) lower() {
	if a.opts.Consume != nil {
		return
	}
	if err := platform.Lower(a.cfg.Load().Kubeconfig != ""); err != nil {
		a.log.Warn("this agent may do more than it needs", "error", err)
	}
}

// takeOver lets requests begin here, and no more at the agent before.
func (a *Agent) takeOver(ctx context.Context) error {
	a.log.Info("taking over from another agent", "from", a.before.String())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settling):
	}
	if err := a.claim.TakeOver(ctx, a.before, notice); err != nil {
		return fmt.Errorf("take over from %v: %w", a.before, err)
	}
	return nil
}

// succession is how far another agent has taken over from this one.
type succession struct{ told bool }

// succeeded says that another agent has taken over, and that nothing is in flight here any
// more, or has been for too long.
func (a *Agent) succeeded(s *succession) (over bool, err error) {
	by, since, gone, err := a.claim.Succeeded()
	switch {
	case err != nil:
		return false, err
	case gone:
		a.log.Warn("takeover aborted: the other agent ended, this one continues")
		s.told = false
		return false, nil
	case by == nil:
		return false, nil
	}
	if !s.told {
		s.told = true
		a.log.Info("another agent takes over: requests in flight are followed to their end", "by", by.String())
	}
	if since < lingering {
		return false, nil
	}
	live, err := a.tracer.LiveRequests()
	return live == 0 || since > draining, err
}
