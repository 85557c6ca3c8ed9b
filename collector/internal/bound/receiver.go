package bound

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Servers are those of one component's configuration.
type Servers struct {
	HTTP []HTTP
	GRPC []*configgrpc.ServerConfig
}

// HTTP is an HTTP server, and what it decodes.
type HTTP struct {
	Config *confighttp.ServerConfig
	Choose func(path, media string) check
	Traces string // the path to which OTLP sends spans; "" of others
}

// Receivers wraps a factory. Find returns the servers of a configuration.
func Receivers(f receiver.Factory, find func(component.Config) (Servers, error), log func(*zap.Logger) *zap.Logger) receiver.Factory {
	// A receiver of several signals is created once for each, with the same configuration,
	// and starts once.
	var mu sync.Mutex
	known := map[component.Config]middlewares{}
	wrap := func(set *receiver.Settings, cfg component.Config) (middlewares, error) {
		mu.Lock()
		defer mu.Unlock()
		set.Logger = log(set.Logger)
		if m := known[cfg]; m != nil {
			return m, nil
		}
		servers, err := find(cfg)
		if err != nil {
			return nil, err
		}
		m, err := newMiddlewares(set.ID, set.TelemetrySettings, servers)
		known[cfg] = m
		return m, err
	}
	bounded := func(c component.Component, m middlewares, cfg component.Config) component.Component {
		if c == nil {
			return nil
		}
		return &started{server{c, m}, func() {
			mu.Lock()
			defer mu.Unlock()
			delete(known, cfg)
		}}
	}
	return receiver.NewFactory(f.Type(), f.CreateDefaultConfig,
		receiver.WithTraces(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
			m, err := wrap(&set, cfg)
			if err != nil {
				return nil, err
			}
			r, err := f.CreateTraces(ctx, set, cfg, next)
			return bounded(r, m, cfg), err
		}, f.TracesStability()),
		receiver.WithMetrics(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
			m, err := wrap(&set, cfg)
			if err != nil {
				return nil, err
			}
			r, err := f.CreateMetrics(ctx, set, cfg, next)
			return bounded(r, m, cfg), err
		}, f.MetricsStability()),
		receiver.WithLogs(func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
			m, err := wrap(&set, cfg)
			if err != nil {
				return nil, err
			}
			r, err := f.CreateLogs(ctx, set, cfg, next)
			return bounded(r, m, cfg), err
		}, f.LogsStability()))
}

// started forgets the middlewares of its configuration at its end.
type started struct {
	server
	forget func()
}

func (s *started) Shutdown(ctx context.Context) error {
	s.forget()
	return s.server.Shutdown(ctx)
}

// host adds middlewares to the extensions of another host.
type host struct {
	component.Host
	middlewares middlewares
}

func (h host) GetExtensions() map[component.ID]component.Component {
	all := maps.Clone(h.Host.GetExtensions())
	if all == nil {
		all = map[component.ID]component.Component{}
	}
	maps.Copy(all, h.middlewares)
	return all
}

// Report passes on the status of a component that failed.
func (h host) Report(e *componentstatus.Event) {
	if r, ok := h.Host.(componentstatus.Reporter); ok {
		r.Report(e)
	}
}

// middlewares are the framework's extensions of that kind, by the names that the
// configurations of the servers refer to.
type middlewares map[component.ID]component.Component

var kind = component.MustNewType("tare_bound")

func newMiddlewares(id component.ID, set component.TelemetrySettings, servers Servers) (middlewares, error) {
	boundCompressors()
	refusals, err := newRefusals(set, id, set.Logger)
	if err != nil {
		return nil, err
	}
	all := middlewares{}
	name := func(n int, of string) component.ID {
		return component.MustNewIDWithName(kind.String(), fmt.Sprintf("%s_%d_%s", of, n, strings.NewReplacer("/", "_").Replace(id.String())))
	}
	for i, server := range servers.HTTP {
		c := server.Config
		wanted := configmiddleware.Config{ID: name(i, "http")}
		c.Middlewares = append([]configmiddleware.Config{wanted}, c.Middlewares...)
		c.ReadHeaderTimeout = first(c.ReadHeaderTimeout, headerTimeout)
		c.ReadTimeout = first(c.ReadTimeout, bodyTimeout)
		c.WriteTimeout = first(c.WriteTimeout, bodyTimeout)
		c.IdleTimeout = first(c.IdleTimeout, idleTimeout) //nolint:staticcheck // the source of truth, as confighttp says
		s := newHTTP(c, server.Choose)
		s.refusals, s.traces = refusals, server.Traces
		all[wanted.ID] = httpMiddleware{server: s}
	}
	for i, c := range servers.GRPC {
		wanted := configmiddleware.Config{ID: name(i, "grpc")}
		c.Middlewares = append([]configmiddleware.Config{wanted}, c.Middlewares...)
		if c.MaxConcurrentStreams == 0 {
			c.MaxConcurrentStreams = 100
		}
		idle(c)
		all[wanted.ID] = grpcMiddleware{server: newGRPC(refusals)}
	}
	return all, nil
}

// idle closes connections without calls, and those whose peer has gone.
func idle(c *configgrpc.ServerConfig) {
	if !c.Keepalive.HasValue() {
		c.Keepalive = configoptional.Some(configgrpc.NewDefaultKeepaliveServerConfig())
	}
	k := c.Keepalive.Get()
	if !k.ServerParameters.HasValue() {
		k.ServerParameters = configoptional.Some(configgrpc.NewDefaultKeepaliveServerParameters())
	}
	p := k.ServerParameters.Get()
	p.MaxConnectionIdle = first(p.MaxConnectionIdle, 10*idleTimeout)
	p.Time = first(p.Time, idleTimeout)
	p.Timeout = first(p.Timeout, bodyTimeout)
}

func first[T comparable](given, otherwise T) T {
	var zero T
	if given != zero {
		return given
	}
	return otherwise
}

type httpMiddleware struct {
	component.StartFunc
	component.ShutdownFunc
	server httpServer
}

func (m httpMiddleware) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		s := m.server
		s.next = next
		return &s, nil
	}, nil
}

type grpcMiddleware struct {
	component.StartFunc
	component.ShutdownFunc
	server *grpcServer
}

func (m grpcMiddleware) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	return m.server.options(), nil
}
