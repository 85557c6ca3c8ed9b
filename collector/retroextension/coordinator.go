package retroextension

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

const (
	maxAgents = 16_384
	maxRing   = 65_536
	// pace is the least time between two answers with keeps to an agent: with 1,000 agents, answers to each single keep
	// would be most of the collector's work.
	pace = 100 * time.Millisecond
)

var errTooMany = fmt.Errorf("%d agents are connected, which is the limit", maxAgents)

// coordinator passes keeps on from each agent to all others.
type coordinator struct {
	now   func() time.Time
	epoch uint64
	stop  chan struct{} // closed when polls are to end

	mu      sync.Mutex
	ring    []entry
	base    uint64 // position of ring[0]; that of the first keep is 1
	kept    map[span.TraceID]struct{}
	limiter *limiter
	agents  map[string]*agent
	polls   int
	news    chan struct{} // closed when the ring has grown
	counts  counts
}

type entry struct {
	keep.Keep
	at   time.Time // received, by this process's clock
	from string    // instance
}

type agent struct{ asked, answered time.Time }

// counts of keeps. Those that are limited are counted by class, in the limiter.
type counts struct{ passed, repeated, limited, missed uint64 }

func newCoordinator(rate int, now func() time.Time) *coordinator {
	return &coordinator{
		now: now, epoch: uint64(now().UnixMicro()), stop: make(chan struct{}), base: 1, kept: map[span.TraceID]struct{}{},
		limiter: newLimiter(rate, now()), agents: map[string]*agent{}, news: make(chan struct{}),
	}
}

// add takes keeps from an agent, or with "" from somebody else, and returns how many were dropped.
func (c *coordinator) add(from string, keeps []keep.Keep) (limited int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.forget()
	grown := false
	for _, k := range keeps {
		if _, ok := c.kept[k.TraceID]; ok {
			c.counts.repeated++
			continue
		}
		if !c.limiter.allow(now, class{k.Service, k.Reason}, k.TraceID) {
			c.counts.limited++
			limited++
			continue
		}
		if len(c.ring) == maxRing {
			c.drop(1)
		}
		k.Time = time.Time{} // of a clock that others do not have
		c.ring = append(c.ring, entry{k, now, from})
		c.kept[k.TraceID] = struct{}{}
		c.counts.passed++
		grown = true
	}
	if grown {
		close(c.news)
		c.news = make(chan struct{})
	}
	return limited
}

// forget drops keeps that are too old, and returns the time.
func (c *coordinator) forget() time.Time {
	now := c.now()
	old := 0
	for old < len(c.ring) && now.Sub(c.ring[old].at) > keep.MaxAge {
		old++
	}
	c.drop(old)
	return now
}

func (c *coordinator) drop(n int) {
	for _, e := range c.ring[:n] {
		delete(c.kept, e.TraceID)
	}
	c.ring = c.ring[n:]
	c.base += uint64(n)
}

// join notes that an agent asks. It fails if there are too many.
func (c *coordinator) join(instance string) (*agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[instance]
	if a == nil {
		if len(c.agents) >= maxAgents && c.connected() >= maxAgents {
			return nil, errTooMany
		}
		a = &agent{}
		c.agents[instance] = a
	}
	a.asked = c.now()
	return a, nil
}

// connected is how many agents have asked lately; it forgets the others.
func (c *coordinator) connected() int {
	now := c.now()
	for instance, a := range c.agents {
		if now.Sub(a.asked) > keep.MaxAge {
			delete(c.agents, instance)
		}
	}
	return len(c.agents)
}

// poll answers a request that has a position: when there are keeps of others, wait is over, or the collector stops.
func (c *coordinator) poll(ctx context.Context, a *agent, instance string, after keep.Position, wait time.Duration) (keep.Answer, error) {
	if err := c.enter(); err != nil {
		return keep.Answer{}, err
	}
	defer c.leave()
	over := time.NewTimer(wait)
	defer over.Stop()
	c.mu.Lock()
	next := a.answered.Add(pace)
	c.mu.Unlock()
	for ended := wait == 0; ; {
		if early := next.Sub(c.now()); early > 0 && !ended {
			ended = c.sleep(ctx, over.C, time.After(early), nil)
		}
		keeps, to, news := c.since(instance, after)
		if len(keeps) > 0 || ended {
			c.mu.Lock()
			if len(keeps) > 0 {
				a.answered = c.now()
			}
			c.mu.Unlock()
			return keep.Answer{After: to, Keeps: keeps}, ctx.Err()
		}
		after = to
		ended = c.sleep(ctx, over.C, nil, news)
	}
}

// sleep returns true if a poll is to be answered now.
func (c *coordinator) sleep(ctx context.Context, over, enough <-chan time.Time, news <-chan struct{}) bool {
	select {
	case <-enough:
	case <-news:
	case <-over:
		return true
	case <-c.stop:
		return true
	case <-ctx.Done():
		return true
	}
	return false
}

// since returns keeps of others behind a position, how far these reach, and a channel that is closed when there are more.
func (c *coordinator) since(instance string, after keep.Position) ([]keep.Keep, keep.Position, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	end := c.base + uint64(len(c.ring)) // the next position
	next := c.base
	if after.Epoch == c.epoch && after.N < end {
		if after.N+1 < c.base {
			c.counts.missed += c.base - after.N - 1
		}
		next = max(next, after.N+1)
	}
	var keeps []keep.Keep
	for ; next < end && len(keeps) < keep.MaxKeeps; next++ {
		if e := &c.ring[next-c.base]; e.from != instance {
			keeps = append(keeps, e.Keep)
		}
	}
	return keeps, keep.Position{Epoch: c.epoch, N: next - 1}, c.news
}

func (c *coordinator) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.polls >= maxAgents {
		return errTooMany
	}
	c.polls++
	return nil
}

func (c *coordinator) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls--
}
