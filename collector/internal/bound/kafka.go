package bound

import (
	"context"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/zipkin/zipkinv1"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/zipkin/zipkinv2"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/kafkareceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
)

// Kafka limits what the receiver kafka decodes, in the encodings of OTLP and Zipkin. It asks for an extension of an
// encoding's name before it takes its own decoder. The others do not recurse as deep as a message is nested, nor
// allocate what a length in it says.
func Kafka(log func(*zap.Logger) *zap.Logger) receiver.Factory {
	f := kafkareceiver.NewFactory()
	return receiver.NewFactory(f.Type(), f.CreateDefaultConfig,
		receiver.WithTraces(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
			d, err := newDecoding(&set, log)
			if err != nil {
				return nil, err
			}
			of := func(c check, u ptrace.Unmarshaler) component.Component { return tracesDecoding{d.of(c), u} }
			r, err := f.CreateTraces(ctx, set, cfg, next)
			return withEncodings(r, map[string]component.Component{
				"otlp_proto":    of(byShape(tracesShape), &ptrace.ProtoUnmarshaler{}),
				"otlp_json":     of(byNames(tracesShape), &ptrace.JSONUnmarshaler{}),
				"zipkin_proto":  of(byShape(zipkinShape), zipkinv2.NewProtobufTracesUnmarshaler(false, false)),
				"zipkin_json":   of(byNames(nil), zipkinv2.NewJSONTracesUnmarshaler(false)),
				"zipkin_thrift": of(byThrift(tList), zipkinv1.NewThriftTracesUnmarshaler()),
			}), err
		}, f.TracesStability()),
		receiver.WithMetrics(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
			d, err := newDecoding(&set, log)
			if err != nil {
				return nil, err
			}
			r, err := f.CreateMetrics(ctx, set, cfg, next)
			return withEncodings(r, map[string]component.Component{
				"otlp_proto": metricsDecoding{d.of(byShape(metricsShape)), &pmetric.ProtoUnmarshaler{}},
				"otlp_json":  metricsDecoding{d.of(byNames(metricsShape)), &pmetric.JSONUnmarshaler{}},
			}), err
		}, f.MetricsStability()),
		receiver.WithLogs(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
			d, err := newDecoding(&set, log)
			if err != nil {
				return nil, err
			}
			r, err := f.CreateLogs(ctx, set, cfg, next)
			return withEncodings(r, map[string]component.Component{
				"otlp_proto": logsDecoding{d.of(byShape(logsShape)), &plog.ProtoUnmarshaler{}},
				"otlp_json":  logsDecoding{d.of(byNames(logsShape)), &plog.JSONUnmarshaler{}},
			}), err
		}, f.LogsStability()))
}

// withEncodings starts a receiver beside extensions that decode, by the names of encodings.
func withEncodings(r component.Component, encodings map[string]component.Component) component.Component {
	if r == nil {
		return nil
	}
	all := middlewares{}
	for name, e := range encodings {
		all[component.MustNewID(name)] = e
	}
	return &server{r, all}
}

// decoding checks a message before it is decoded.
type decoding struct {
	component.StartFunc
	component.ShutdownFunc
	check    check
	refusals *refusals
	budget   *budget
}

func newDecoding(set *receiver.Settings, log func(*zap.Logger) *zap.Logger) (decoding, error) {
	set.Logger = log(set.Logger)
	r, err := newRefusals(set.TelemetrySettings, set.ID, set.Logger)
	return decoding{refusals: r, budget: shared}, err
}

func (d decoding) of(c check) decoding {
	d.check = c
	return d
}

// again is how long a message waits before it asks once more for memory that others have: nobody else
// would send it again.
const again = 5 * time.Millisecond

func decode[T any](d decoding, message []byte, next func([]byte) (T, error)) (decoded T, err error) {
	cost, err := d.check(message, d.budget.message())
	if err != nil {
		r := refused(err)
		d.refusals.add(context.Background(), "kafka", r)
		return decoded, r
	}
	cost += int64(len(message)) // the texts
	for !d.budget.take(cost) {
		time.Sleep(again)
	}
	defer d.budget.give(cost)
	return next(message)
}

type tracesDecoding struct {
	decoding
	decoder ptrace.Unmarshaler
}

func (d tracesDecoding) UnmarshalTraces(message []byte) (ptrace.Traces, error) {
	return decode(d.decoding, message, d.decoder.UnmarshalTraces)
}

type metricsDecoding struct {
	decoding
	decoder pmetric.Unmarshaler
}

func (d metricsDecoding) UnmarshalMetrics(message []byte) (pmetric.Metrics, error) {
	return decode(d.decoding, message, d.decoder.UnmarshalMetrics)
}

type logsDecoding struct {
	decoding
	decoder plog.Unmarshaler
}

func (d logsDecoding) UnmarshalLogs(message []byte) (plog.Logs, error) {
	return decode(d.decoding, message, d.decoder.UnmarshalLogs)
}
