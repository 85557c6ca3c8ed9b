package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
)

const (
	// An agent that was killed is gone when the kernel has closed its descriptors.
	patience = 3 * time.Second
	// One that takes over has to load its programs first.
	replacing = time.Minute
	look      = 50 * time.Millisecond
)

// ErrHeld means that another agent traces this host.
var ErrHeld = errors.New("another agent traces this host")

// Take claims this host. While another agent has it, Take fails after some seconds with an
// error that names the other one; with replace, it returns the other one, for TakeOver.
// Of agents that begin at once, the first to claim is first.
func Take(ctx context.Context, o Options, replace bool) (*Claim, *Other, error) {
	c, err := New(o)
	if err != nil {
		return nil, nil, err
	}
	before, err := c.take(ctx, replace)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, before, nil
}

func (c *Claim) take(ctx context.Context, replace bool) (before *Other, err error) {
	limit := patience
	if replace {
		limit = replacing
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		done, err := c.try(replace, time.Now().After(deadline))
		if done.over || err != nil {
			return done.before, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

type tried struct {
	over   bool // the claim holds, or is to be taken over from before
	before *Other
}

func (c *Claim) try(replace, last bool) (t tried, err error) {
	others, err := c.others()
	defer func() {
		for _, o := range others {
			if o != t.before {
				o.close()
			}
		}
	}()
	if err != nil {
		return t, err
	}
	var earlier, holders []*Other
	for _, o := range others {
		switch {
		case o.v.Holds != 0:
			holders = append(holders, o)
		case o.id < c.id: // ids are given in order; who holds does, whatever its id
			earlier = append(earlier, o)
		}
	}
	switch {
	case len(earlier) == 0 && len(holders) == 0:
		return tried{over: true}, c.hold()
	case len(earlier) == 0 && len(holders) == 1 && replace:
		h := holders[0]
		if h.v.Version != version || h.v.Replaceable == 0 {
			return t, fmt.Errorf("%w: %v, which nothing can take over from: `tare run`, or another version; stop it first", ErrHeld, h)
		}
		return tried{true, h}, nil
	case !last:
		return t, nil
	}
	other := append(holders, earlier...)[0]
	if replace {
		return t, fmt.Errorf("%w: %v, and another one is about to take over from it", ErrHeld, other)
	}
	return t, fmt.Errorf("%w: %v; --replace takes over from it, and --instance NAME traces beside it what it does not trace", ErrHeld, other)
}

func (c *Claim) hold() error { return c.own.write(unsafe.Offsetof(layout.Holds), uint32(1)) }

// TakeOver has requests begin here instead of at another agent, from a moment on that both
// know before it comes: what arrives before it is the other's. It returns when it has come.
func (c *Claim) TakeOver(ctx context.Context, from *Other, notice time.Duration) error {
	now, err := c.clock()
	if err != nil {
		return err
	}
	at := now + uint64(notice)
	memory, err := from.m.Memory()
	if err != nil {
		return fmt.Errorf("write the claim of %v: %w", from, err)
	}
	other := state{memory}
	// The other one stops first: of a process that stands still here, the worst is a gap.
	if err := errors.Join(
		other.write(unsafe.Offsetof(layout.Successor), uint32(c.id)),
		other.write(unsafe.Offsetof(layout.Until), at),
		c.own.write(unsafe.Offsetof(layout.From), at),
	); err != nil {
		return err
	}
	for now < at {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(at - now)):
		}
		if now, err = c.clock(); err != nil {
			return err
		}
	}
	return c.hold()
}

// Succeeded says whether another agent takes over from this one: who, nil if none does, and
// for how long it has been its turn, negative if it comes. If it has ended, requests begin
// here again, and gone is true once.
func (c *Claim) Succeeded() (by *Other, since time.Duration, gone bool, err error) {
	v, err := c.own.read()
	if err != nil || v.Until == never {
		return nil, 0, false, err
	}
	if c.heir == nil || c.heir.id != ebpf.ProgramID(v.Successor) {
		if c.heir, err = find(ebpf.ProgramID(v.Successor)); err != nil {
			return nil, 0, false, err
		}
	}
	if c.heir == nil || !there(c.heir.id) {
		c.heir = nil
		return nil, 0, true, errors.Join(
			c.own.write(unsafe.Offsetof(layout.Until), uint64(never)),
			c.own.write(unsafe.Offsetof(layout.Successor), uint32(0)))
	}
	now, err := c.clock()
	return c.heir, time.Duration(now - v.Until), false, err
}

// there: the kernel still has a program.
func there(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err == nil {
		_ = p.Close() // a reference to it
	}
	return !errors.Is(err, os.ErrNotExist)
}
