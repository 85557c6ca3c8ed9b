package bound

import (
	"errors"
	"strings"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/jaegerreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/zipkinreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

const (
	protobuf = "application/x-protobuf"
	json     = "application/json"
	thrift1  = "application/x-thrift"
	thrift2  = "application/vnd.apache.thrift.binary"
)

// OTLP finds the servers of the receiver otlp.
func OTLP(cfg component.Config) (s Servers, err error) {
	c := cfg.(*otlpreceiver.Config) //nolint:errcheck // the factory's
	if c.Protocols.GRPC.HasValue() {
		s.GRPC = []*configgrpc.ServerConfig{c.Protocols.GRPC.Get()}
	}
	if !c.Protocols.HTTP.HasValue() {
		return s, nil
	}
	h := c.Protocols.HTTP.Get()
	shapes := map[string]*shape{
		string(h.TracesURLPath): tracesShape, string(h.MetricsURLPath): metricsShape, string(h.LogsURLPath): logsShape,
	}
	s.HTTP = []HTTP{{Traces: string(h.TracesURLPath), Config: &h.ServerConfig, Choose: func(path, media string) check {
		shape := shapes[path]
		switch {
		case shape == nil:
		case media == protobuf:
			return byShape(shape)
		case media == json:
			return byNames(shape)
		}
		return nil
	}}}
	return s, nil
}

// Zipkin finds the server of the receiver zipkin, which answers on every path.
func Zipkin(cfg component.Config) (Servers, error) {
	c := cfg.(*zipkinreceiver.Config) //nolint:errcheck // the factory's
	return Servers{HTTP: []HTTP{{Config: &c.ServerConfig, Choose: func(path, media string) check {
		v1 := strings.Contains(path, "api/v1/spans")
		switch {
		case media == json || v1 && media == protobuf: // as the receiver has it
			return byNames(nil)
		case media == thrift1 && v1:
			return byThrift(tList)
		case media == protobuf:
			return byShape(zipkinShape)
		}
		return nil
	}}}}, nil
}

// Jaeger finds the servers of the receiver jaeger. UDP is none of them: its decoder allocates lists of the size that a
// datagram says, 768 MiB for one of 20 bytes, and whoever sent it cannot be told to stop.
func Jaeger(cfg component.Config) (s Servers, err error) {
	c := cfg.(*jaegerreceiver.Config) //nolint:errcheck // the factory's
	if c.Protocols.ThriftBinaryUDP.HasValue() || c.Protocols.ThriftCompactUDP.HasValue() {
		return s, errors.New("thrift_compact and thrift_binary (UDP) are not received: 20 bytes can take 768 MiB of memory there; send by thrift_http, grpc or OTLP")
	}
	if c.Protocols.GRPC.HasValue() {
		s.GRPC = []*configgrpc.ServerConfig{c.Protocols.GRPC.Get()}
	}
	if c.Protocols.ThriftHTTP.HasValue() {
		s.HTTP = []HTTP{{Config: c.Protocols.ThriftHTTP.Get(), Choose: func(path, media string) check {
			if path == "/api/traces" && (media == thrift1 || media == thrift2) {
				return byThrift(tStruct)
			}
			return nil
		}}}
	}
	return s, nil
}
