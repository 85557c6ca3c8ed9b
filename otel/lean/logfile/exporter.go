package logfile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
)

// ErrShutdown is the error of an export that comes after Shutdown.
var ErrShutdown = errors.New("logfile: the exporter is shut down")

// blockBytes is about how much is written by one system call: more than the batches of lean have.
const blockBytes = 4 << 20

// Exporter writes spans into a file. It may be used by several goroutines. Make it with [New].
type Exporter struct {
	config Config

	mu     sync.Mutex // held while a file is written
	lines  lines
	file   file
	count  func() // e.lineDone, made once: a method value is an allocation
	closed bool
	block  block
	lost   int   // spans of this export
	err    error // why

	written, writtenLines, bytes, lostAll, held atomic.Uint64
}

// block is what is complete in lines.out, and not written yet.
type block struct{ lines, spans, end int }

// Stats are counts since the exporter was made, but for Held.
type Stats struct {
	Spans   uint64 // written
	Lines   uint64 // written
	Bytes   uint64 // written
	Lost    uint64 // spans that could not be written
	Held    uint64 // spans that wait for their local root now
	Rotated uint64 // files
	Removed uint64 // files, beyond MaxTotalBytes
}

// New opens the file, or creates it. It fails where the configuration cannot work, where the file cannot
// be opened, and where another process writes it.
func New(c Config) (*Exporter, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("logfile: %w", err)
	}
	e := &Exporter{config: c, file: file{config: c}}
	e.count = e.lineDone
	if c.PerRequest {
		e.lines.held = newHeld(c.MaxFileBytes / 4)
	}
	if err := e.file.open(); err != nil {
		return nil, fmt.Errorf("logfile: %w", err)
	}
	return e, nil
}

// Export writes the spans of an encoded ExportTraceServiceRequest. It returns how many could not be
// written, if others could. Spans that are held count as written; if they cannot be later, Stats says so.
func (e *Exporter) Export(ctx context.Context, request []byte, spans int) (rejected int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, ErrShutdown
	}
	now := time.Now()
	e.lines.observed = uint64(now.UnixNano()) //nolint:gosec // of this century
	e.lost, e.err = 0, nil
	if err := e.lines.walk(request, e.count); err != nil {
		// What had been read is written; the rest cannot be.
		e.lose(max(0, spans-e.lines.taken), err)
	}
	if e.lines.held != nil {
		e.lines.complete(e.count)
		until := now.Add(-e.config.HoldFor)
		if e.config.HoldFor < 0 {
			until = now.Add(time.Hour)
		}
		e.lines.release(until, e.count)
	}
	e.flush()
	switch {
	case e.err == nil:
		return 0, nil
	case e.lost >= spans:
		return 0, fmt.Errorf("logfile: %w", e.err)
	default:
		otel.Handle(fmt.Errorf("logfile: %d of %d spans were not written: %w", e.lost, spans, e.err))
		return e.lost, nil
	}
}

// lineDone counts a line that has been appended, and writes when there is enough.
func (e *Exporter) lineDone() {
	out, b := e.lines.out, &e.block
	size := int64(len(out) - b.end)
	if size > e.config.MaxFileBytes {
		e.lines.out = out[:b.end]
		e.lose(e.lines.spans, fmt.Errorf("a line of %d bytes does not fit into a file of %d", size, e.config.MaxFileBytes))
		return
	}
	if int64(len(out)) > e.config.MaxFileBytes {
		// The line begins the next block.
		line := out[b.end:]
		e.lines.out = out[:b.end]
		e.flush()
		e.lines.out = append(e.lines.out, line...) // further ahead in the same memory
	}
	b.lines++
	b.spans += e.lines.spans
	b.end = len(e.lines.out)
	if b.end >= blockBytes {
		e.flush()
	}
}

// flush writes the block.
func (e *Exporter) flush() {
	b := e.block
	if b.end > 0 {
		if err := e.file.write(e.lines.out[:b.end]); err != nil {
			e.lose(b.spans, err)
		} else {
			e.written.Add(uint64(b.spans))      //nolint:gosec // counts
			e.writtenLines.Add(uint64(b.lines)) //nolint:gosec // counts
			e.bytes.Add(uint64(b.end))          //nolint:gosec // counts
		}
	}
	if e.lines.out = e.lines.out[:0]; cap(e.lines.out) > 2*blockBytes {
		e.lines.out = nil
	}
	e.block = block{}
	if e.lines.held != nil {
		e.held.Store(uint64(e.lines.held.spans)) //nolint:gosec // a count
	}
}

func (e *Exporter) lose(spans int, err error) {
	e.lost, e.err = e.lost+spans, err
	e.lostAll.Add(uint64(spans)) //nolint:gosec // a count
}

// Shutdown writes what is held, syncs the file, and closes it. Further calls do nothing.
func (e *Exporter) Shutdown(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.lost, e.err = 0, nil
	if e.lines.held != nil {
		e.lines.release(time.Now().Add(time.Hour), e.count)
		e.flush()
	}
	if err := errors.Join(e.err, e.file.close()); err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	return nil
}

// Stats returns the counts as they are now.
func (e *Exporter) Stats() Stats {
	return Stats{
		Spans: e.written.Load(), Lines: e.writtenLines.Load(), Bytes: e.bytes.Load(), Lost: e.lostAll.Load(),
		Held: e.held.Load(), Rotated: e.file.rotated.Load(), Removed: e.file.removed.Load(),
	}
}
