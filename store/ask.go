package store

import "context"

type asked struct{}

// Ask is asked before a query takes much memory: more than a mebibyte. spans is how many bytes of a trace's spans, in
// OTLP and 150 more for each, are to be read, and beside is what else is held at that time, in bytes. It waits until there is so much, and returns
// how many bytes of the spans may be read; of the others the trace has less, or nothing ([Found.Cut]). What it
// allowed the same query before is not held any more. Its error is the query's.
type Ask = func(ctx context.Context, spans, beside int64) (int64, error)

// WithAsk returns a context with which a [Store] calls ask. So a server decides how much memory its queries
// take together. A trace takes about three times the size of its spans.
func WithAsk(ctx context.Context, ask Ask) context.Context {
	return context.WithValue(ctx, asked{}, ask)
}

// AskOf returns the Ask of a context, nil if it has none.
func AskOf(ctx context.Context) Ask {
	f, _ := ctx.Value(asked{}).(Ask)
	return f
}

// freeBytes is the most, in bytes, that a query takes without asking.
const freeBytes = 1 << 20

// askOf asks the context's Ask; nil if it has none.
func askOf(ctx context.Context) func(spans, beside int64) (int64, error) {
	f := AskOf(ctx)
	if f == nil {
		return nil
	}
	return func(spans, beside int64) (int64, error) { return f(ctx, spans, beside) }
}

// holding is what a view has in memory that may be large. Of blocks, and of resources of chunks, it has at most one that
// is; of names, what maxNames allows, and those of the chunks in use.
type holding struct {
	ask     func(spans, beside int64) (int64, error) // nil: everything is allowed
	block   *chunkData                               // with a large block
	groups  *chunkData                               // with large resources
	sizes   [holds]int64                             // bytes
	granted int64                                    // bytes that need not be asked for
}

const (
	holdsBlock = iota
	holdsGroups
	holdsNames
	holds
)

const (
	largePart = 128 << 10 // bytes from which a view has one
	maxNames  = 4 << 20   // bytes of dictionaries that a view has, beside those in use
)

// hold is called before a chunk's block, or its resources, of n bytes are held.
func (h *holding) hold(kind int, c *chunkData, n int64) error {
	if n <= largePart {
		return nil
	}
	last := &h.block
	if kind == holdsGroups {
		last = &h.groups
	}
	if *last != nil {
		(*last).forget(kind)
	}
	*last, h.sizes[kind] = c, n
	return h.more()
}

// more asks for what is held now.
func (h *holding) more() error {
	sum := int64(0)
	for _, n := range h.sizes {
		sum += n
	}
	if h.ask == nil || sum <= max(h.granted, freeBytes) {
		return nil
	}
	h.granted = sum
	_, err := h.ask(0, sum)
	return err
}

// forget lets go of what is large.
func (c *chunkData) forget(kind int) {
	if kind == holdsGroups {
		c.groups = nil
		return
	}
	for i, b := range c.blocks {
		if len(b) > largePart {
			c.blocks[i], c.blockNums[i] = nil, -1
		}
	}
}
