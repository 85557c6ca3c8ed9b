package guard

import (
	"context"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
)

// LogRefusals makes the authenticators of a factory log the requests that they refuse,
// with its source address. Receivers and the page answer 401 or Unauthenticated without
// logging anything.
func LogRefusals(f extension.Factory) extension.Factory {
	return extension.NewFactory(f.Type(), f.CreateDefaultConfig,
		func(ctx context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
			e, err := f.Create(ctx, set, cfg)
			if err != nil {
				return nil, err
			}
			server, ok := e.(extensionauth.Server)
			if !ok {
				return e, nil // authenticates only outgoing requests
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

// authenticatorBoth also authenticates outgoing requests.
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
