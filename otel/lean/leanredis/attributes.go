package leanredis

import (
	"slices"
	"unsafe"

	"github.com/redis/go-redis/extra/rediscmd/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.24.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
)

// numberOfCommands is redisotel's own key.
const numberOfCommands = attribute.Key("db.redis.num_cmd")

func (s site) on(span *lean.Span) {
	span.SetString(semconv.CodeFunctionKey, s.function)
	span.SetString(semconv.CodeFilepathKey, s.file)
	span.SetInt(semconv.CodeLineNumberKey, int64(s.line))
}

func (s site) appendTo(attrs []attribute.KeyValue) []attribute.KeyValue {
	return append(attrs,
		semconv.CodeFunction(s.function), semconv.CodeFilepath(s.file), semconv.CodeLineNumber(s.line))
}

// recorded is the one allocation for a command that is recorded: its span, and
// the text of its statement, if that is not long. The text is written once, so
// that whoever keeps a part of it, such as a redactor, keeps what it saw.
type recorded struct {
	span      lean.Span
	statement [128]byte
}

func (r *recorded) set(statement []byte) {
	r.span.SetString(semconv.DBStatementKey, unsafe.String(unsafe.SliceData(statement), len(statement)))
}

func appendPipeline(b []byte, cmds []redis.Cmder) []byte {
	for i, cmd := range cmds {
		if i > 0 {
			b = append(b, '\n')
		}
		b = rediscmd.AppendCmd(b, cmd)
	}
	return b
}

// pipelineName is "redis.pipeline" and the names of its commands, each once, no
// more than ten.
func pipelineName(cmds []redis.Cmder) string {
	const most = 10
	var mem [most]string
	names := mem[:0]
	var text [128]byte
	b := append(text[:0], "redis.pipeline "...)
	for _, cmd := range cmds {
		name := cmd.FullName()
		if slices.Contains(names, name) {
			continue
		}
		if len(names) > 0 {
			b = append(b, ' ')
		}
		b = append(b, name...)
		if names = append(names, name); len(names) == most {
			break
		}
	}
	return string(b)
}

// For samplers that use attributes, and for providers other than lean's:

func (h *hook) commandAttributes(cmd redis.Cmder, from site) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, len(h.attributes)+4)
	attrs = append(attrs, h.attributes...)
	if h.config.caller {
		attrs = from.appendTo(attrs)
	}
	if h.config.statement {
		attrs = append(attrs, semconv.DBStatement(rediscmd.CmdString(cmd)))
	}
	return attrs
}

func (h *hook) pipelineAttributes(cmds []redis.Cmder, from site) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, len(h.attributes)+5)
	attrs = append(attrs, h.attributes...)
	attrs = append(attrs, numberOfCommands.Int(len(cmds)))
	if h.config.caller {
		attrs = from.appendTo(attrs)
	}
	if h.config.statement {
		attrs = append(attrs, semconv.DBStatement(string(appendPipeline(nil, cmds))))
	}
	return attrs
}

func (h *hook) options(attrs []attribute.KeyValue) []trace.SpanStartOption {
	return []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...)}
}
