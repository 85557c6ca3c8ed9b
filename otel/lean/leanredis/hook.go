package leanredis

import (
	"context"
	"net"

	"github.com/redis/go-redis/extra/rediscmd/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
)

// The frames between runtime.Callers and go-redis: Callers itself, caller, and
// the hook's function.
const skip = 3

// ProcessHook traces single commands.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.config.command != nil && h.config.command(cmd) {
			return next(ctx, cmd)
		}
		if h.lean == nil {
			var from site
			if h.config.caller {
				from = caller(skip)
			}
			ctx, span := h.api.Start(ctx, cmd.FullName(), h.options(h.commandAttributes(cmd, from))...)
			defer span.End()
			return report(span, next(ctx, cmd))
		}
		start := lean.Start{Name: cmd.FullName(), Kind: trace.SpanKindClient, Attributes: h.attributes}
		early := h.lean.UsesAttributes()
		if early {
			var from site
			if h.config.caller {
				from = caller(skip)
			}
			start.Attributes = h.commandAttributes(cmd, from)
		}
		d := h.lean.Decide(ctx, &start)
		if !d.Recording() {
			return next(h.drop(ctx, &d), cmd)
		}
		r := new(recorded)
		ctx = h.lean.StartIn(&r.span, ctx, &start, &d)
		defer r.span.End()
		if !early {
			if h.config.caller {
				caller(skip).on(&r.span)
			}
			if h.config.statement {
				r.set(rediscmd.AppendCmd(r.statement[:0], cmd))
			}
		}
		return report(&r.span, next(ctx, cmd))
	}
}

// ProcessPipelineHook traces pipelines and transactions.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.config.commands != nil && h.config.commands(cmds) {
			return next(ctx, cmds)
		}
		if h.lean == nil {
			var from site
			if h.config.caller {
				from = caller(skip)
			}
			ctx, span := h.api.Start(ctx, pipelineName(cmds), h.options(h.pipelineAttributes(cmds, from))...)
			defer span.End()
			return report(span, next(ctx, cmds))
		}
		start := lean.Start{Name: pipelineName(cmds), Kind: trace.SpanKindClient, Attributes: h.attributes}
		early := h.lean.UsesAttributes()
		if early {
			var from site
			if h.config.caller {
				from = caller(skip)
			}
			start.Attributes = h.pipelineAttributes(cmds, from)
		}
		d := h.lean.Decide(ctx, &start)
		if !d.Recording() {
			return next(h.drop(ctx, &d), cmds)
		}
		r := new(recorded)
		ctx = h.lean.StartIn(&r.span, ctx, &start, &d)
		defer r.span.End()
		if !early {
			r.span.SetInt(numberOfCommands, int64(len(cmds)))
			if h.config.caller {
				caller(skip).on(&r.span)
			}
			if h.config.statement {
				r.set(appendPipeline(r.statement[:0], cmds))
			}
		}
		return report(&r.span, next(ctx, cmds))
	}
}

// DialHook traces the dialing of connections.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if h.config.noDial {
			return next(ctx, network, addr)
		}
		const name = "redis.dial"
		if h.lean == nil {
			ctx, span := h.api.Start(ctx, name, h.options(h.attributes)...)
			defer span.End()
			conn, err := next(ctx, network, addr)
			return conn, report(span, err)
		}
		start := lean.Start{Name: name, Kind: trace.SpanKindClient, Attributes: h.attributes}
		d := h.lean.Decide(ctx, &start)
		if !d.Recording() {
			return next(h.drop(ctx, &d), network, addr)
		}
		span := new(lean.Span)
		ctx = h.lean.StartIn(span, ctx, &start, &d)
		defer span.End()
		conn, err := next(ctx, network, addr)
		return conn, report(span, err)
	}
}

// drop returns the context for a command that is not recorded. One whose
// caller is not sampled either says so already.
func (h *hook) drop(ctx context.Context, d *lean.Decision) context.Context {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && !sc.IsSampled() {
		return ctx
	}
	return h.lean.DropIn(new(lean.Unrecorded), ctx, d)
}

// report puts an error on the span. That a key does not exist is none.
func report(span trace.Span, err error) error {
	if err != nil && err != redis.Nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
