package store

import "context"

type asked struct{}

// WithAsk returns a context with which [Store.Trace] calls ask before it reads a trace, with
// the size of its spans in bytes of OTLP. An error of ask is Trace's. So whoever serves
// queries decides how many large traces are in memory at once; Trace needs about three
// times their size.
func WithAsk(ctx context.Context, ask func(ctx context.Context, size int64) error) context.Context {
	return context.WithValue(ctx, asked{}, ask)
}

func ask(ctx context.Context, places []place) error {
	f, ok := ctx.Value(asked{}).(func(context.Context, int64) error)
	if !ok {
		return nil
	}
	var size int64
	for _, p := range places {
		size += int64(p.length)
	}
	return f(ctx, size)
}
