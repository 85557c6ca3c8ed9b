package leanredis

import (
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.24.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/tare-trace/tare/otel/lean/leanredis"

// Instrument adds a hook to rdb that gives each command, each pipeline or
// transaction, and each dialing of a connection a client span. It returns an
// error for a client of a type that it does not know.
func Instrument(rdb redis.UniversalClient, opts ...Option) error {
	switch rdb := rdb.(type) {
	case *redis.Client:
		rdb.AddHook(newHook(rdb.Options(), opts))
	case *redis.ClusterClient:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(newHook(node.Options(), opts)) })
	case *redis.Ring:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(newHook(node.Options(), opts)) })
	default:
		return fmt.Errorf("leanredis: cannot instrument a %T; give it a *redis.Client, *redis.ClusterClient or *redis.Ring", rdb)
	}
	return nil
}

// hook traces the commands to one node.
type hook struct {
	config     *config
	attributes []attribute.KeyValue // of every span
	lean       *lean.Tracer
	api        trace.Tracer // nil if lean is not
}

var _ redis.Hook = (*hook)(nil)

func newHook(node *redis.Options, opts []Option) *hook {
	c := newConfig(opts)
	h := &hook{config: c, attributes: c.attributes}
	if host, port, err := net.SplitHostPort(node.Addr); err == nil {
		h.attributes = append(h.attributes, semconv.ServerAddress(host))
		if p, err := strconv.Atoi(port); err == nil {
			h.attributes = append(h.attributes, semconv.ServerPort(p))
		}
	}
	scheme := node.Network
	if scheme == "tcp" {
		scheme = "redis"
	}
	h.attributes = append(h.attributes,
		semconv.DBSystemKey.String(c.system),
		semconv.DBConnectionString(scheme+"://"+node.Addr))

	var ok bool
	if h.lean, ok = lean.TracerOf(c.provider, ScopeName); !ok {
		h.api = c.provider.Tracer(ScopeName)
	}
	return h
}
