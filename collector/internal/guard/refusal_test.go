package guard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"
)

var errWrong = errors.New("wrong password")

type door struct {
	component.StartFunc
	component.ShutdownFunc
}

func (door) Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error) {
	if sources["Password"][0] != "right" {
		return ctx, errWrong
	}
	return context.WithValue(ctx, doorKey{}, "in"), nil
}

type doorKey struct{}

type doorAndKey struct{ door }

func (doorAndKey) RoundTripper(base http.RoundTripper) (http.RoundTripper, error)  { return base, nil }
func (doorAndKey) PerRPCCredentials() (c credentials.PerRPCCredentials, err error) { return nil, nil }

type keyOnly struct {
	component.StartFunc
	component.ShutdownFunc
}

func (keyOnly) RoundTripper(base http.RoundTripper) (http.RoundTripper, error) { return base, nil }

// sampled is what the framework does to its loggers.
var sampled = zap.WrapCore(func(c zapcore.Core) zapcore.Core {
	return zapcore.NewSamplerWithOptions(c, time.Hour, 10, 0)
})

func wrapped(t *testing.T, inner extension.Extension) (extension.Extension, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	f := LogRefusals(extension.NewFactory(component.MustNewType("door"), func() component.Config { return &struct{}{} },
		func(context.Context, extension.Settings, component.Config) (extension.Extension, error) {
			return inner, nil
		},
		component.StabilityLevelBeta))
	set := extension.Settings{ID: component.MustNewID("door"), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	set.Logger = zap.New(core, LogPeers(), sampled)
	e, err := f.Create(t.Context(), set, f.CreateDefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return e, logs
}

func TestRefusedRequestIsLogged(t *testing.T) {
	before := lines
	lines = &rate{now: time.Now, kinds: map[string]*allowance{}}
	defer func() { lines = before }()
	e, logs := wrapped(t, door{})
	server := e.(extensionauth.Server)
	from := client.NewContext(t.Context(), client.Info{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 99}})

	ctx, err := server.Authenticate(from, map[string][]string{"Password": {"right"}})
	if err != nil || ctx.Value(doorKey{}) != "in" {
		t.Errorf("the right password: %v, %v", ctx.Value(doorKey{}), err)
	}
	if logs.Len() != 0 {
		t.Errorf("who was let in is logged: %v", logs.All())
	}
	if _, err := server.Authenticate(from, map[string][]string{"Password": {"geheim"}}); !errors.Is(err, errWrong) {
		t.Errorf("the wrong password: %v", err)
	}
	lines := logs.TakeAll()
	if len(lines) != 1 || lines[0].Level != zapcore.WarnLevel {
		t.Fatalf("want one warning, got %v", lines)
	}
	fields := lines[0].ContextMap()
	if fields["from"] != "192.0.2.7:99" || fields["error"] != errWrong.Error() {
		t.Errorf("it says %v", fields)
	}
	if _, err := server.Authenticate(t.Context(), map[string][]string{"Password": {""}}); err == nil {
		t.Error("no password was taken")
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("%d lines for a request without an address", n)
	}
	logs.TakeAll()
	for range burst / 2 {
		_, _ = server.Authenticate(from, map[string][]string{"Password": {"guess"}})
	}
	if n := logs.Len(); n != burst/2 {
		t.Errorf("%d lines for %d refused requests", n, burst/2)
	}
	for range 100 * burst {
		_, _ = server.Authenticate(from, map[string][]string{"Password": {strings.Repeat("guess", 10_000)}})
	}
	if n := logs.Len(); n >= 50*burst {
		t.Errorf("%d lines of %d", n, 100*burst)
	}
}

// Other interfaces of an authenticator are preserved: the framework asks for them by
// type.
func TestOtherRolesAreKept(t *testing.T) {
	type roles struct{ server, http, grpc bool }
	for _, c := range []struct {
		inner extension.Extension
		want  roles
	}{
		{door{}, roles{server: true}},
		{doorAndKey{}, roles{server: true, http: true, grpc: true}},
		{keyOnly{}, roles{http: true}},
	} {
		e, _ := wrapped(t, c.inner)
		var got roles
		_, got.server = e.(extensionauth.Server)
		_, got.http = e.(extensionauth.HTTPClient)
		_, got.grpc = e.(extensionauth.GRPCClient)
		if got != c.want {
			t.Errorf("%T: %+v, want %+v", c.inner, got, c.want)
		}
	}
}
