// Package retro takes the traces that somebody asks for out of the memory of retroactive sampling: those whose requests
// failed or were slow, as triggers of the kernel side say, those that other agents keep, and those that are asked for by
// their ids.
//
// It reads the memory some time after it was written, the delay: by then all agents have told which traces they want, and all
// records of a request are written. While no trace is wanted it passes over the records without a look at them.
package retro

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/agent/event"
	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

const (
	// Tick is how often Keeper.Tick is to be called.
	Tick = 100 * time.Millisecond
	// wantedFor is how long after it was asked for the spans of a trace are kept: some are late.
	wantedFor = 60 * time.Second
	// early is how much before its trigger a trace is looked for at least.
	early = time.Second
	// shortest is the delay below which it is of no use: others hear of a trace by then.
	shortest = 300 * time.Millisecond
	expiry   = 5 * time.Second

	maxSpans  = 1 << 18 // of wanted traces, in progress
	maxWanted = 65536   // traces
	// MaxCaptured is how many traces are captured at once.
	MaxCaptured = 20000
	maxRecords  = 64 << 20 // bytes of records in a tick
	maxMarks    = 4096     // some minutes
)

// Memory is where the records lie: *kernel.Retro.
type Memory interface {
	Here() kernel.Place
	From(kernel.Place) *kernel.RetroCursor
	Whole(since, now kernel.Place) bool
	Triggers(func(*bpf.RetroTrigger))
	Rule(service uint16) *kernel.RetroRule
}

// Config of a Keeper.
type Config struct {
	Delay     time.Duration // how far behind it reads; at most half of the horizon
	PerSecond float64       // triggers of a service that are taken
	Slow      time.Duration // an entry that takes longer is slow; 0: none is
	Services  uint16        // how many indexes of services there are
	// Handle receives the records of wanted traces, in the order of their times.
	Handle func(raw []byte)
	// Tell says that this host keeps a trace. It must not block.
	Tell func(keep.Keep)
	// Service names a service.
	Service func(index uint16) string
}

// Stats count since the start.
type Stats struct {
	Triggered, Limited uint64 // requests that triggered; of them, too many
	Repeated           uint64 // further triggers of traces that were wanted already
	Kept               map[keep.Reason]uint64
	Overwritten        uint64        // bytes that were overwritten before they were read
	Torn               uint64        // records that were not whole when they were read
	Crowded            uint64        // traces, and records of wanted ones, for which there was no room
	Records            uint64        // that were handed over
	Horizon            time.Duration // how far the memory reaches back; 0: it was not filled yet
	Delay              time.Duration // how far behind it reads now
	Wanted             int           // traces, of the last minute
	Waiting            int           // of them: their records are not all read yet
	Asked              uint64        // triggers that were read
}

// Keeper is what decides which traces are taken.
type Keeper struct {
	cfg    Config
	mem    Memory
	cursor *kernel.RetroCursor
	at     uint64 // time of the cursor's place, CLOCK_MONOTONIC, ns
	marks  []mark

	wanted  map[trace]wanted
	fresh   map[trace]uint64      // wanted since the last tick: from when on they are looked for behind the cursor
	spans   map[uint64]inProgress // of wanted traces
	waiting []uint64              // when traces were asked for, of those whose records are not all read
	expired uint64
	ended   []uint64 // spans, in this tick
	lately  []record // of this tick
	room    int

	mu       sync.Mutex
	others   []keep.Keep
	captures []capture

	ruled time.Time
	seen  map[uint16]rule // of services that triggered
	stats Stats

	published atomic.Pointer[Stats]
}

type trace struct{ hi, lo uint64 } // as the kernel side has them

type wanted struct {
	reason keep.Reason
	span   uint64 // that triggered; 0: of another host, or none
	until  uint64
}

// capture asks for all that a service did lately.
type capture struct {
	service string
	ago     time.Duration
	traces  chan int // how many that are
}

type inProgress struct{ began, until uint64 }

// mark is where the kernel side wrote at a time.
type mark struct {
	at    uint64
	place kernel.Place
}

type record struct {
	at  uint64
	raw []byte
}

type rule struct {
	triggered uint64
	rate      float64
}

// New makes a Keeper.
func New(mem Memory, cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, mem: mem, wanted: map[trace]wanted{}, fresh: map[trace]uint64{}, spans: map[uint64]inProgress{}, seen: map[uint16]rule{}}
	k.stats.Kept = map[keep.Reason]uint64{}
	k.stats.Delay = cfg.Delay
	here := mem.Here()
	k.cursor = mem.From(here)
	k.marks = []mark{{place: here}} // of no time: nothing was written before
	for i := range cfg.Services {
		mem.Rule(i).SetSlow(cfg.Slow)
	}
	return k
}

// Want asks for traces, from any goroutine.
func (k *Keeper) Want(keeps []keep.Keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.others = append(k.others, keeps[:min(len(keeps), maxWanted-min(maxWanted, len(k.others)))]...)
}

func traceOf(id span.TraceID) trace {
	return trace{binary.NativeEndian.Uint64(id[:8]), binary.NativeEndian.Uint64(id[8:])}
}

func (t trace) id() (id span.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], t.hi)
	binary.NativeEndian.PutUint64(id[8:], t.lo)
	return id
}

// Reason says why a span's trace is kept, for the span that triggered and for the root of the trace; else "".
func (k *Keeper) Reason(id span.TraceID, span uint64, root bool) keep.Reason {
	w, ok := k.wanted[traceOf(id)]
	if !ok || !(root || w.span == span) {
		return ""
	}
	return w.reason
}

// Now is the time of what is read, CLOCK_MONOTONIC, ns.
func (k *Keeper) Now() uint64 { return k.at }

// Tick reads what is due. now: CLOCK_MONOTONIC, ns.
func (k *Keeper) Tick(now uint64) {
	k.marks = append(k.marks, mark{now, k.mem.Here()})
	k.mem.Triggers(func(t *bpf.RetroTrigger) { k.trigger(t, now) })
	k.heard(now)
	k.reach(now)
	k.capture(now)
	k.read(now)
	if now-k.expired > uint64(expiry) {
		k.expire(now)
	}
	k.limit(now)
	k.publish()
}

var reasons = map[bpf.TareRetroReason]keep.Reason{
	bpf.TareRetroReasonTARE_RETRO_ERROR: keep.Error, bpf.TareRetroReasonTARE_RETRO_SLOW: keep.Slow,
	bpf.TareRetroReasonTARE_RETRO_NO_RESPONSE: keep.NoResponse, bpf.TareRetroReasonTARE_RETRO_RESET: keep.Reset,
}

func (k *Keeper) trigger(t *bpf.RetroTrigger, now uint64) {
	if _, ok := k.seen[t.Service]; !ok {
		k.seen[t.Service] = rule{}
	}
	id := trace{t.TraceHi, t.TraceLo}
	k.stats.Asked++
	reason := reasons[bpf.TareRetroReason(t.Reason)]
	if !k.want(id, wanted{reason: reason, span: t.SpanId}, t.Began, now) {
		return
	}
	k.cfg.Tell(keep.Keep{TraceID: id.id(), Service: k.cfg.Service(t.Service), Reason: reason, Ago: time.Duration(now - min(now, t.Began))})
}

// heard takes what others want.
func (k *Keeper) heard(now uint64) {
	k.mu.Lock()
	others := k.others
	k.others = nil
	k.mu.Unlock()
	for _, o := range others {
		k.want(traceOf(o.TraceID), wanted{reason: o.Reason}, now-min(now, uint64(max(o.Ago, 0))), now)
	}
}

// Capture asks, from any goroutine, for the traces of all requests that a service received for some time up to now, and says how
// many that are; at most MaxCaptured.
func (k *Keeper) Capture(service string, ago time.Duration) <-chan int {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := capture{service, ago, make(chan int, 1)}
	k.captures = append(k.captures, c)
	return c.traces
}

func (k *Keeper) capture(now uint64) {
	k.mu.Lock()
	captures := k.captures
	k.captures = nil
	k.mu.Unlock()
	for _, c := range captures {
		begin, ok := k.place(now - min(now, uint64(max(c.ago, 0))))
		if !ok {
			begin = k.marks[0]
		}
		names, found := map[uint16]bool{}, map[trace]struct{}{}
		k.mem.From(begin.place).Read(k.marks[len(k.marks)-1].place, func(raw []byte) bool {
			if len(raw) < traceEnd || bpf.TareRecordType(raw[0]) != bpf.TareRecordTypeTARE_START || bpf.TareRole(raw[1]) != bpf.TareRoleTARE_SERVER {
				return false
			}
			index := binary.NativeEndian.Uint16(raw[serviceAt:])
			is, known := names[index]
			if !known {
				is = k.cfg.Service(index) == c.service
				names[index] = is
			}
			if is && len(found) < MaxCaptured {
				found[trace{binary.NativeEndian.Uint64(raw[traceAt:]), binary.NativeEndian.Uint64(raw[traceAt+8:])}] = struct{}{}
			}
			return false
		}, nil)
		n := 0
		for id := range found {
			if k.want(id, wanted{reason: keep.Capture}, begin.at, now) {
				k.cfg.Tell(keep.Keep{TraceID: id.id(), Service: c.service, Reason: keep.Capture, Ago: c.ago})
				n++
			}
		}
		c.traces <- n
	}
}

// want notes that a trace is wanted which began at a time. False: it was already, or there are too many.
func (k *Keeper) want(id trace, w wanted, began, now uint64) bool {
	w.until = now + uint64(wantedFor)
	if was, ok := k.wanted[id]; ok {
		k.stats.Repeated++
		if was.span == 0 {
			was.span = w.span
		}
		was.until = w.until
		k.wanted[id] = was
		return false
	}
	if len(k.wanted) >= maxWanted {
		k.stats.Crowded++
		return false
	}
	k.wanted[id] = w
	k.waiting = append(k.waiting, now)
	k.stats.Kept[w.reason]++
	k.fresh[id] = began - min(began, uint64(early))
	return true
}

// reach finds out how far the memory reaches back, and how far behind it is to be read.
func (k *Keeper) reach(now uint64) {
	lost, here := 0, k.marks[len(k.marks)-1].place
	for lost < len(k.marks)-1 && (len(k.marks)-lost > maxMarks || !k.mem.Whole(k.marks[lost].place, here)) {
		lost++
	}
	k.marks = slices.Delete(k.marks, 0, lost)
	if lost > 0 {
		k.stats.Horizon = time.Duration(now - k.marks[0].at)
	}
	k.stats.Delay = k.cfg.Delay
	if h := k.stats.Horizon; h > 0 {
		k.stats.Delay = max(min(k.cfg.Delay, h/2), shortest)
	}
}

// place is where the kernel side wrote at a time, or a little before.
func (k *Keeper) place(at uint64) (mark, bool) {
	i, _ := slices.BinarySearchFunc(k.marks, at, func(m mark, at uint64) int { return cmp.Compare(m.at, at) })
	if i < len(k.marks) && k.marks[i].at == at {
		return k.marks[i], true
	}
	if i == 0 {
		return mark{}, false
	}
	return k.marks[i-1], true
}

// read takes the records of wanted traces up to the delay.
func (k *Keeper) read(now uint64) {
	to, ok := k.place(now - min(now, uint64(k.stats.Delay)))
	if !ok && k.stats.Horizon > 0 {
		to, ok = k.marks[0], true // it does not reach back so far
	}
	if !ok || to.at < k.at {
		return
	}
	k.lately, k.room = k.lately[:0], maxRecords
	if len(k.fresh) > 0 && k.at > 0 {
		k.again()
	}
	clear(k.fresh)
	if len(k.wanted) == 0 {
		k.cursor.Seek(to.place)
	} else {
		k.take(k.cursor, to, func(id trace) bool { _, ok := k.wanted[id]; return ok })
	}
	k.at = to.at
	slices.SortStableFunc(k.lately, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	for i := range k.lately {
		k.stats.Records++
		k.cfg.Handle(k.lately[i].raw)
		k.lately[i].raw = nil
	}
}

// again looks for the beginnings of traces that were not wanted when their records were passed over.
func (k *Keeper) again() {
	from := k.at
	for _, began := range k.fresh {
		from = min(from, began)
	}
	upto, ok := k.place(k.at)
	if from >= k.at || !ok || upto.at != k.at {
		return
	}
	begin, ok := k.place(from)
	if !ok {
		begin = k.marks[0]
	}
	c := k.mem.From(begin.place)
	k.take(c, upto, func(id trace) bool { _, ok := k.fresh[id]; return ok })
	k.stats.Overwritten += c.Overwritten
	k.stats.Torn += c.Holes
}

// Offsets in bytes within records, as event.h has them.
const (
	serviceAt   = 6  // of START
	timeAt      = 8  // of START, DATA and END
	spanAt      = 16 // likewise
	otherSpanAt = 8  // of PATH and PUBLISHED, which have no time
	traceAt     = 24 // of START
	traceEnd    = 40
	endsAt      = 48 // of START: the span that ends with it
)

// take copies the records of traces up to a mark: first where their spans begin, then what follows, which may be found before on
// another CPU.
func (k *Keeper) take(c *kernel.RetroCursor, to mark, of func(trace) bool) {
	word := binary.NativeEndian.Uint64
	add := func(at uint64, raw []byte, size int) {
		if len(raw) > k.room {
			k.stats.Crowded++
			return
		}
		k.room -= len(raw)
		k.lately = append(k.lately, record{at, append(make([]byte, 0, size), raw...)[:size]})
	}
	start := func(raw []byte) bool { return bpf.TareRecordType(raw[0]) == bpf.TareRecordTypeTARE_START }
	first := c.Clone()
	first.Read(to.place, func(raw []byte) bool {
		return start(raw) && len(raw) >= traceEnd && of(trace{word(raw[traceAt:]), word(raw[traceAt+8:])})
	}, func(raw []byte) {
		if len(k.spans) >= maxSpans {
			k.stats.Crowded++
			return
		}
		at := word(raw[timeAt:])
		if len(raw) >= endsAt+8 {
			k.ended = append(k.ended, word(raw[endsAt:]))
		}
		k.spans[word(raw[spanAt:])] = inProgress{began: at, until: to.at + uint64(wantedFor)}
		add(at, raw, max(len(raw), event.StartSize)) // the memory has no more of it than there is
	})
	// The other records of a span. Those without a time come with its beginning.
	span := func(raw []byte) (s inProgress, at uint64, ok bool) {
		switch t := bpf.TareRecordType(raw[0]); {
		case t == bpf.TareRecordTypeTARE_PATH || t == bpf.TareRecordTypeTARE_PUBLISHED:
			s, ok = k.spans[word(raw[otherSpanAt:])]
			at = s.began
		case !start(raw) && len(raw) >= spanAt+8:
			s, ok = k.spans[word(raw[spanAt:])]
			at = word(raw[timeAt:])
		}
		return s, at, ok
	}
	c.Read(to.place, func(raw []byte) bool {
		_, _, ok := span(raw)
		return ok
	}, func(raw []byte) {
		_, at, ok := span(raw)
		if !ok {
			return
		}
		add(at, raw, len(raw))
		if bpf.TareRecordType(raw[0]) == bpf.TareRecordTypeTARE_END {
			k.ended = append(k.ended, word(raw[spanAt:]))
		}
	})
	for _, id := range k.ended { // what they have on other CPUs is older, and was read
		delete(k.spans, id)
	}
	k.ended = k.ended[:0]
}

// expire forgets what was wanted long ago.
func (k *Keeper) expire(now uint64) {
	k.expired = now
	for id, w := range k.wanted {
		if w.until < now {
			delete(k.wanted, id)
		}
	}
	for id, s := range k.spans {
		if s.until < now {
			delete(k.spans, id)
		}
	}
}

// limit tells the kernel side which traces are to trigger, where too many would.
func (k *Keeper) limit(now uint64) {
	at := time.Unix(0, int64(now)) //nolint:gosec // a time
	took := at.Sub(k.ruled).Seconds()
	if took < 1 {
		return
	}
	first := k.ruled.IsZero()
	k.ruled = at
	for i, was := range k.seen {
		r := k.mem.Rule(i)
		is := r.Triggered()
		if !first {
			was.rate += (float64(is-was.triggered)/took - was.rate) / 2
			share := 1.0
			if was.rate > k.cfg.PerSecond {
				share = k.cfg.PerSecond / was.rate
			}
			r.SetShare(share)
		}
		was.triggered = is
		k.seen[i] = was
	}
}

// Stats are what has been counted. They are for any goroutine.
func (k *Keeper) Stats() Stats {
	if s := k.published.Load(); s != nil {
		return *s
	}
	return Stats{Delay: k.cfg.Delay}
}

func (k *Keeper) publish() {
	s := k.stats
	for i := range k.seen {
		r := k.mem.Rule(i)
		s.Triggered += r.Triggered()
		s.Limited += r.Limited()
	}
	s.Wanted = len(k.wanted)
	for len(k.waiting) > 0 && k.waiting[0] <= k.at {
		k.waiting = k.waiting[1:]
	}
	s.Waiting = len(k.waiting)
	s.Overwritten += k.cursor.Overwritten
	s.Torn += k.cursor.Holes
	s.Kept = maps.Clone(k.stats.Kept)
	k.published.Store(&s)
}
