package equality_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// statusPrograms: every sequence of at most three calls of SetStatus, one span each.
func statusPrograms() []program {
	type call struct {
		code codes.Code
		text string
	}
	calls := []call{{codes.Unset, ""}, {codes.Unset, "unset"}, {codes.Error, ""}, {codes.Error, "first"}, {codes.Error, "second"}, {codes.Ok, ""}, {codes.Ok, "fine"}}
	sequences := [][]call{nil}
	for begin, round := 0, 0; round < 3; round++ {
		end := len(sequences)
		for _, s := range sequences[begin:end] {
			for _, c := range calls {
				sequences = append(sequences, append(s[:len(s):len(s)], c))
			}
		}
		begin = end
	}
	return []program{
		{Name: "status/every sequence of three", Run: func(ctx context.Context, e *env) {
			for _, seq := range sequences {
				_, s := e.Main().Start(ctx, fmt.Sprint(seq))
				for _, c := range seq {
					s.SetStatus(c.code, c.text)
				}
				s.End()
			}
		}},
		one("status/a code that is none", func(s trace.Span) { s.SetStatus(codes.Code(17), "what") }),
		one("status/a code that is none, then Error", func(s trace.Span) { s.SetStatus(codes.Code(17), "what"); s.SetStatus(codes.Error, "error") }),
		one("status/Error, then a code that is none", func(s trace.Span) { s.SetStatus(codes.Error, "error"); s.SetStatus(codes.Code(17), "what") }),
	}
}
