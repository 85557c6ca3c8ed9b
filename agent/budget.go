package agent

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/kernel"
)

const (
	budgetTick = time.Second
	budgetRead = 50 * time.Millisecond // of each, in which the hooks are timed
	// The rate that is aimed at leaves a tenth of the budget, since a rate that rises is felt a
	// little later; it at most doubles each second, and falls at once.
	budgetAim  = 0.9
	budgetRise = 2.0
	// What counts is the last second or the mean of the last ones, whichever is more: a short reading
	// of few requests may miss what they cost. So much of the mean is the last second's.
	budgetRecent = 0.3
	budgetBegin  = 0.01 // the rate before anything was measured, if the sampler's is higher
	budgetLong   = 10   // seconds: it is told that the budget is exceeded for longer
	budgetIdle   = 10   // with fewer spans in a second than this, what the process takes is not for requests
)

// spends is what tracing takes, in CPUs.
type spends struct {
	idle     float64 // without any request
	whatever float64 // for requests, sampled or not
	sampled  float64 // for those that are sampled, above all by the agent itself
	requests float64 // per second, that traced services receive
}

// meanOf is the mean of the last seconds, with one more.
func meanOf(mean, now float64) float64 { return mean + budgetRecent*(now-mean) }

// account is how many CPUs a budget allows, and how many count as spent: a budget per request
// does not pay for what the agent takes without any.
func account(b config.Budget, cpus int, s spends) (allowed, spent float64) {
	if b.PerRequest > 0 {
		return b.PerRequest.Seconds() * s.requests, s.whatever + s.sampled
	}
	return b.Share * float64(cpus), s.idle + s.whatever + s.sampled
}

// follow is the sampling rate by which a budget is kept that allows so many CPUs, if requests
// take whatever CPUs, sampled or not, and would take perRate more if all were sampled.
func follow(rate, whatever, perRate, allowed, floor, ceiling float64) float64 {
	room := budgetAim*allowed - whatever
	want := ceiling
	switch {
	case room <= 0:
		want = floor
	case perRate > 0:
		want = room / perRate
	}
	return min(max(min(want, rate*budgetRise), floor), ceiling)
}

// budget lets the sampling rate follow what tracing takes: never above the sampler's own, and
// not below a floor. The threshold of each trace is the one that its root decision was made
// by, and is told with it, so that counts scale by it whatever the rate was.
type budget struct {
	set     func(threshold uint64) error // at the kernel side
	measure func(context.Context) (spends, error)
	cpus    int
	log     *slog.Logger

	mu       sync.Mutex
	cfg      config.Budget
	ceiling  uint64 // the sampler's threshold
	rate     float64
	recent   spends  // means of the last seconds
	perRate  float64 // likewise, of what sampled requests would take if all were sampled
	measured bool
	beyond   int  // seconds for which it has cost more than the budget at the floor
	over     bool // that was told
	retro    *retroShare
}

// retroShare is the share of requests that are sampled or remembered: it gives way to a budget before the sampling rate does.
type retroShare struct {
	set   func(threshold uint64) error // at the kernel side
	most  float64                      // as configured
	share float64
}

// leastShare is the share below which no request is remembered.
const leastShare = 0.01

// gives takes what tracing costs, and reports whether the sampling rate is to stay as it is. rises: the rate has what it wants.
func (r *retroShare) gives(spent, may float64, rises bool) (bool, error) {
	switch {
	case r == nil:
		return false, nil
	case spent > may && r.share > 0:
		if r.share /= 2; r.share < leastShare {
			r.share = 0
		}
	case rises && spent < budgetAim*may && r.share < r.most:
		r.share = min(max(1.25*r.share, leastShare), r.most)
	default:
		return r.share > 0, nil
	}
	return true, r.set(config.ThresholdOf(r.share))
}

func newBudget(cfg config.Budget, ceiling uint64, set func(uint64) error, measure func(context.Context) (spends, error), log *slog.Logger) *budget {
	return &budget{set: set, measure: measure, cpus: runtime.NumCPU(), log: log, cfg: cfg, ceiling: ceiling, rate: beginning(cfg, ceiling)}
}

// beginning is the rate before anything was measured; without a budget, the sampler's.
func beginning(b config.Budget, ceiling uint64) float64 {
	p := config.Probability(ceiling)
	if !b.On() {
		return p
	}
	return min(p, max(budgetBegin, b.Floor))
}

// configure changes the budget and the sampler's own threshold.
func (b *budget) configure(cfg config.Budget, ceiling uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !cfg.On() || !b.cfg.On() || b.rate == 0:
		b.rate, b.measured = beginning(cfg, ceiling), false
	default:
		b.rate = min(b.rate, config.Probability(ceiling))
	}
	b.cfg, b.ceiling, b.beyond, b.over = cfg, ceiling, 0, false
	return b.set(b.threshold())
}

func (b *budget) threshold() uint64 { return max(b.ceiling, config.ThresholdOf(b.rate)) }

func (b *budget) on() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.On()
}

// run keeps the budget.
func (b *budget) run(ctx context.Context) error {
	return every(ctx, budgetTick, func() error {
		if !b.on() {
			return nil
		}
		now, err := b.measure(ctx)
		if err != nil {
			return err
		}
		return b.step(now)
	})
}

// step takes what tracing took in the last second.
func (b *budget) step(now spends) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	ceiling := config.Probability(b.ceiling)
	never := ceiling == 0 || b.rate == 0 // nothing is sampled, whatever it costs
	if !b.cfg.On() || never && b.retro == nil {
		return nil // the budget may have been switched off meanwhile
	}
	if b.cfg.PerRequest > 0 && now.requests == 0 {
		return nil // nothing to judge by
	}
	perRate := 0.0
	if !never {
		perRate = now.sampled / b.rate
	}
	if !b.measured {
		b.recent, b.perRate, b.measured = now, perRate, true
	}
	b.recent = spends{
		meanOf(b.recent.idle, now.idle), meanOf(b.recent.whatever, now.whatever),
		meanOf(b.recent.sampled, now.sampled), meanOf(b.recent.requests, now.requests),
	}
	b.perRate = meanOf(b.perRate, perRate)
	floor := min(b.cfg.Floor, ceiling)
	may, spent := account(b.cfg, b.cpus, b.recent)
	whatever, each := b.recent.whatever, b.perRate
	if b.cfg.PerRequest == 0 {
		whatever, each = b.recent.idle+max(now.whatever, b.recent.whatever), max(perRate, b.perRate)
	}
	latest := b.recent
	latest.whatever, latest.sampled = max(now.whatever, latest.whatever), max(now.sampled, latest.sampled)
	_, most := account(b.cfg, b.cpus, latest)
	if stays, err := b.retro.gives(most, may, b.rate >= beginning(b.cfg, b.ceiling)); stays || never || err != nil {
		b.beyond = 0
		return err
	}
	b.rate = follow(b.rate, whatever, each, may, floor, ceiling)
	b.beyond++
	if b.rate > floor || spent <= may {
		b.beyond = 0
	}
	if over := b.beyond > budgetLong || b.over && b.beyond > 0; over != b.over {
		b.over = over
		if over {
			b.log.Warn("tracing exceeds its budget at the lowest sampling rate (budget_floor)", "budget", b.cfg.String(), "floor", b.cfg.Floor, "cpus", spent, "allowed", may)
		} else {
			b.log.Info("tracing is within its budget again", "cpus", spent, "allowed", may)
		}
	}
	return b.set(b.threshold())
}

var (
	descBudget = prometheus.NewDesc("tare_budget_cores",
		"What tracing may cost on this host, in CPUs, as budget says; absent without one.", nil, nil)
	descSpent = prometheus.NewDesc("tare_budget_spent_cores",
		"What it has cost in the last seconds, in CPUs: kernel programs on sockets, and the agent's process.", nil, nil)
)

// Describe implements prometheus.Collector.
func (b *budget) Describe(ch chan<- *prometheus.Desc) {
	ch <- descBudget
	ch <- descSpent
}

// Collect implements prometheus.Collector.
func (b *budget) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg.On() && b.measured {
		allowed, spent := account(b.cfg, b.cpus, b.recent)
		ch <- prometheus.MustNewConstMetric(descBudget, prometheus.GaugeValue, allowed)
		ch <- prometheus.MustNewConstMetric(descSpent, prometheus.GaugeValue, spent)
	}
}

// String says of a budget that is exceeded, a line; "" if it is not.
func (b *budget) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		return ""
	}
	return "tracing exceeds its budget of " + b.cfg.String() + " at the lowest sampling rate (budget_floor)\n"
}

// spending measures what tracing takes: the kernel programs for a moment, the process since
// the last time.
func spending(w *weigher) func(context.Context) (spends, error) {
	var used time.Duration
	var at time.Time
	var built uint64
	idle := 0.0
	return func(ctx context.Context) (spends, error) {
		lasted, services, err := w.read(ctx, budgetRead)
		if err != nil {
			return spends{}, err
		}
		var all kernel.Weight
		for _, s := range services {
			all = plus(all, s)
		}
		seconds := lasted.Seconds()
		now := spends{
			whatever: max((all.Time-all.Sampled).Seconds()/seconds, 0),
			sampled:  max(all.Sampled.Seconds()/seconds, 0),
			requests: float64(all.Requests) / seconds,
		}
		spent, when, spans := processTime(), time.Now(), w.built()
		if !at.IsZero() {
			seconds := when.Sub(at).Seconds()
			process := (spent - used).Seconds() / seconds
			if float64(spans-built) < budgetIdle*seconds {
				idle = meanOf(idle, process)
			}
			now.idle = min(idle, process)
			now.sampled += process - now.idle
		}
		used, at, built = spent, when, spans
		return now, nil
	}
}
