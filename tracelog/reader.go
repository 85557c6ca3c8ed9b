package tracelog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/cli"
)

const (
	// maxLine bounds a line, in bytes: the line of a request has up to 16 MiB of spans.
	maxLine = 64 << 20
	// batchSpans are written to the store at once.
	batchSpans = 10_000
)

// counts are of lines, and of the spans in them.
type counts struct{ spans, others, damaged, long int }

// String says what was skipped, "" if nothing was.
func (c counts) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{
		{c.others, "skipped as no spans"},
		{c.damaged, "cannot be read as the spans that they seem to be"},
		{c.long, fmt.Sprintf("skipped as longer than %d MiB", maxLine>>20)},
	} {
		if p.n > 0 {
			noun := "lines"
			if p.n == 1 {
				noun = "line"
			}
			parts = append(parts, fmt.Sprintf("%d %s %s", p.n, noun, p.text))
		}
	}
	return strings.Join(parts, ", ")
}

// reader collects spans from files.
type reader struct {
	only   [][]byte // ids as text: a line without any of them is not decoded; nil: all
	take   func(ptrace.Traces) error
	batch  ptrace.Traces
	size   int
	counts counts
	line   []byte
}

func newReader(only []pcommon.TraceID, take func(ptrace.Traces) error) *reader {
	r := &reader{take: take, batch: ptrace.NewTraces()}
	for _, id := range only {
		r.only = append(r.only, []byte(id.String()))
	}
	return r
}

// file reads one file; in is "-".
func (r *reader) file(ctx context.Context, name string, in io.Reader) error {
	f, err := cli.Input(name, in)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return r.read(ctx, f)
}

// read reads lines, compressed or not.
func (r *reader) read(ctx context.Context, in io.Reader) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		buffered = bufio.NewReaderSize(z, 1<<16)
	}
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, long, err := r.next(buffered)
		switch {
		case long:
			r.counts.long++
		case len(bytes.TrimSpace(line)) > 0:
			if err := r.record(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next returns the next line, which is valid until the next call, or says that it is too long.
func (r *reader) next(in *bufio.Reader) (line []byte, long bool, err error) {
	r.line = r.line[:0]
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(r.line)+len(part) > maxLine; !long {
			r.line = append(r.line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.line, long, err
		}
	}
}

// record takes the spans of a line.
func (r *reader) record(line []byte) error {
	if !bytes.Contains(line, eventName) {
		r.counts.others++
		return nil
	}
	if r.only != nil && !r.wanted(line) {
		r.counts.spans++ // one at least, which is all that is asked of it here
		return nil
	}
	n, err := decode(line, r.batch)
	switch {
	case errors.Is(err, errOther):
		r.counts.others++
	case err != nil:
		r.counts.damaged++
	}
	r.counts.spans += n
	if r.size += n; r.size >= batchSpans {
		return r.flush()
	}
	return nil
}

func (r *reader) wanted(line []byte) bool {
	for _, id := range r.only {
		if bytes.Contains(line, id) {
			return true
		}
	}
	return false
}

// flush gives away what was collected.
func (r *reader) flush() error {
	if r.size == 0 {
		return nil
	}
	err := r.take(r.batch)
	r.batch, r.size = ptrace.NewTraces(), 0
	return err
}
