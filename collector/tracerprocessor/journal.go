package tracerprocessor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/journal"
)

// Journals is what an extension offers that keeps journals.
type Journals interface {
	// Journal returns the directory for the journal of a component with this name, and
	// whether requests are to be synced. It is an error if another has it.
	Journal(name string) (dir string, sync bool, err error)
	// Stored returns which spans of a trace are stored.
	Stored(ctx context.Context, id pcommon.TraceID) (map[pcommon.SpanID]bool, error)
}

// keeper is a tracer's journal, and the goroutines that pass on what is emitted: a segment of
// the journal is removed when what was emitted of it has been taken by the next consumer.
type keeper struct {
	*journal.Journal
	stored func(context.Context, pcommon.TraceID) (map[pcommon.SpanID]bool, error)
	next   consumer.Traces
	refuse func(spans int, err error)

	mu       sync.Mutex
	change   *sync.Cond
	waiting  []batch
	spans    int    // that wait or are being passed on
	put      uint64 // number of the last batch
	running  map[uint64]bool
	stopping bool
	senders  sync.WaitGroup

	freed []freed // segments that go when the batches up to a number have been taken
}

type batch struct {
	number uint64
	td     ptrace.Traces
	spans  int
}

type freed struct {
	after    uint64
	segments journal.Segments
}

const (
	// maxEmitted bounds the spans between this component and the next consumer: beyond it,
	// receivers wait.
	maxEmitted = 100_000
	// sendSpans is how many spans are passed on together, if so many wait: the next consumer
	// may need a sync of the disk for each call.
	sendSpans = 16_384
	freeEvery = 500 * time.Millisecond
)

// openJournal opens the journal of the component with this id.
func openJournal(host component.Host, extension, own component.ID, most int) (*journal.Journal, Journals, error) {
	e, ok := host.GetExtensions()[extension]
	if !ok {
		return nil, nil, fmt.Errorf("`journal`: there is no extension %q: add it to `extensions` and to `service::extensions`, or leave `journal` out", extension)
	}
	from, ok := e.(Journals)
	if !ok {
		return nil, nil, fmt.Errorf("`journal`: extension %q keeps no journals; tare_store does", extension)
	}
	dir, sync, err := from.Journal(own.String())
	if err != nil {
		return nil, nil, err
	}
	j, err := journal.Open(journal.Options{Dir: dir, Sync: sync, MaxBytes: int64(most)})
	return j, from, err
}

func newKeeper(j *journal.Journal, from Journals, next consumer.Traces, refuse func(int, error)) *keeper {
	k := &keeper{Journal: j, stored: from.Stored, next: next, refuse: refuse, running: map[uint64]bool{}}
	k.change = sync.NewCond(&k.mu)
	for range max(2, min(runtime.GOMAXPROCS(0), 8)) {
		k.senders.Go(k.sendAll)
	}
	return k
}

// emit takes what was emitted. It blocks while too much waits.
func (k *keeper) emit(list []ptrace.Traces) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, td := range list {
		for k.spans >= maxEmitted {
			k.change.Wait()
		}
		n := td.SpanCount()
		k.put++
		k.spans += n
		k.waiting = append(k.waiting, batch{k.put, td, n})
		k.running[k.put] = true
		k.change.Broadcast()
	}
}

// sendAll passes on what waits until the keeper stops and nothing does.
func (k *keeper) sendAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		for len(k.waiting) == 0 {
			if k.stopping {
				return
			}
			k.change.Wait()
		}
		n, spans := 0, 0
		for n < len(k.waiting) && (n == 0 || spans+k.waiting[n].spans <= sendSpans) {
			spans += k.waiting[n].spans
			n++
		}
		mine := append([]batch(nil), k.waiting[:n]...)
		clear(k.waiting[:n])
		k.waiting = k.waiting[n:]
		k.mu.Unlock()

		td := mine[0].td
		for _, b := range mine[1:] {
			b.td.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
		}
		// Without the context of a request: they arrived with many requests.
		if err := k.next.ConsumeTraces(context.Background(), td); err != nil {
			k.refuse(spans, err)
		}

		k.mu.Lock()
		for _, b := range mine {
			delete(k.running, b.number)
		}
		k.spans -= spans
		k.change.Broadcast()
	}
}

// free notes the segments of which nothing waits in the assembler any more; whoever calls it
// makes sure that nothing is added or emitted meanwhile.
func (k *keeper) free(oldest time.Time, waits bool) {
	if s := k.Free(oldest, waits); len(s) > 0 {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.freed = append(k.freed, freed{k.put, s})
	}
}

// removeFreed removes the segments of which everything has been taken.
func (k *keeper) removeFreed() error {
	k.mu.Lock()
	least := k.put + 1
	for n := range k.running {
		least = min(least, n)
	}
	var done journal.Segments
	rest := k.freed[:0]
	for _, f := range k.freed {
		if f.after < least {
			done = append(done, f.segments...)
		} else {
			rest = append(rest, f)
		}
	}
	k.freed = rest
	k.mu.Unlock()
	return k.Remove(done)
}

// stop returns when everything that was emitted has been taken.
func (k *keeper) stop() {
	k.mu.Lock()
	k.stopping = true
	k.change.Broadcast()
	k.mu.Unlock()
	k.senders.Wait()
}

// unstored removes the spans that are stored: the process ended after they had been, and before
// the journal noticed.
func (k *keeper) unstored(ctx context.Context, td ptrace.Traces) {
	known := map[pcommon.TraceID]map[pcommon.SpanID]bool{}
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool {
				stored, ok := known[s.TraceID()]
				if !ok {
					stored, _ = k.stored(ctx, s.TraceID()) // what cannot be read is not known to be stored
					known[s.TraceID()] = stored
				}
				return stored[s.SpanID()]
			})
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
}

// readJournal adds what an earlier process left.
func (p *tracer) readJournal(ctx context.Context) {
	defer close(p.journalRead)
	spans := 0
	err := p.keeper.Read(func(td ptrace.Traces) error {
		select {
		case <-p.stop:
			return journal.ErrStop
		default:
		}
		p.keeper.unstored(ctx, td)
		spans += td.SpanCount()
		p.reread.Add(uint64(td.SpanCount()))
		p.add(td)
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrStop) {
		p.log.Error("Spans of the journal cannot be read.", zap.Error(err))
	}
	if spans > 0 {
		p.log.Info("Read spans from the journal that waited when the collector ended.", zap.Int("spans", spans))
	}
}

// sweep removes what is not needed of the journal.
func (p *tracer) sweep() {
	p.mu.Lock()
	p.keeper.free(p.assembler.Oldest())
	p.mu.Unlock()
	err := p.keeper.removeFreed()
	p.journalBytes.Store(p.keeper.Bytes())
	if err != nil {
		p.log.Error("The journal's files cannot be removed.", zap.Error(err))
	}
}
