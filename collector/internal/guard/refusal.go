package guard

import (
	"context"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
)

// LogRefusals makes the authenticators of a factory log every request that they
// refuse, with the address that it came from. Whatever uses them, receivers and
// the page alike, answers 401 or Unauthenticated without a word of its own.
func LogRefusals(f extension.Factory) extension.Factory {
	return extension.NewFactory(f.Type(), f.CreateDefaultConfig,
		func(ctx context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
			e, err := f.Create(ctx, set, cfg)
			if err != nil {
				return nil, err
			}
			server, ok := e.(extensionauth.Server)
			if !ok {
				return e, nil // authenticates requests that are sent
			}
			guard := &authenticator{Extension: e, server: server, log: Unsampled(set.Logger).With(zap.Stringer("otelcol.component.id", set.ID))}
			if c, ok := e.(clientAuth); ok {
				return &authenticatorBoth{authenticator: guard, clientAuth: c}, nil
			}
			return guard, nil
		}, f.Stability())
}

type clientAuth interface {
	extensionauth.HTTPClient
	extensionauth.GRPCClient
}

type authenticator struct {
	extension.Extension
	server extensionauth.Server
	log    *zap.Logger
}

// authenticatorBoth also signs what is sent.
type authenticatorBoth struct {
	*authenticator
	clientAuth
}

func (a *authenticator) Authenticate(ctx context.Context, sources map[string][]string) (context.Context, error) {
	authenticated, err := a.server.Authenticate(ctx, sources)
	if err != nil {
		from := "unknown"
		if addr := client.FromContext(ctx).Addr; addr != nil {
			from = addr.String()
		}
		a.log.Warn("request refused", zap.String("from", from), zap.Error(err))
	}
	return authenticated, err
}
