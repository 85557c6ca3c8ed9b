// Package retroextension is the collector extension `tare_retro`: the coordinator of retroactive sampling. Agents tell
// it which traces they keep, and it tells all other agents, so that each exports its part of these traces. Package
// span/keep has the protocol.
//
// It bounds how many traces are kept, and drops keeps fairly and by trace id beyond that. It keeps nothing on disk: a
// restart loses the keeps of the last minute, of which agents have heard all but the last. It does not know which
// traces there are, and sees no spans.
package retroextension

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/internal/browser"
)

// shutdownTimeout is how long Shutdown waits for requests in progress.
const shutdownTimeout = 2 * time.Second

// Extension is the component's interface for other components.
type Extension interface {
	extension.Extension
	// Addr is the coordinator's address; nil before Start and after Shutdown.
	Addr() net.Addr
}

type retroExtension struct {
	config      *Config
	settings    extension.Settings
	coordinator *coordinator
	metrics     metric.Registration
	listener    net.Listener
	server      *http.Server
	done        chan struct{}
}

var (
	_ Extension                       = (*retroExtension)(nil)
	_ extensioncapabilities.Dependent = (*retroExtension)(nil)
)

// Dependencies is the authenticator, which starts before and stops after this extension.
func (e *retroExtension) Dependencies() []component.ID {
	if !e.config.ServerConfig.Auth.HasValue() {
		return nil
	}
	return []component.ID{e.config.ServerConfig.Auth.Get().Config.AuthenticatorID}
}

func (e *retroExtension) Addr() net.Addr {
	if e.listener == nil {
		return nil
	}
	return e.listener.Addr()
}

// Start listens and serves.
func (e *retroExtension) Start(ctx context.Context, host component.Host) (err error) {
	if err := e.config.Validate(); err != nil { // a program that builds it in code has not validated it
		return err
	}
	c := newCoordinator(e.config.TracesPerSecond, time.Now)
	refused, registration, err := instruments(e.settings.TelemetrySettings, c)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, registration.Unregister())
		}
	}()
	listener, err := e.config.ServerConfig.ToListener(ctx)
	if err != nil {
		return fmt.Errorf("the coordinator of retroactive sampling cannot listen (set another `endpoint`): %w", err)
	}
	h := newHandler(c, e.settings.Logger, refused)
	server, err := e.config.ServerConfig.ToServer(ctx, host.GetExtensions(), e.settings.TelemetrySettings,
		browser.Local(listener.Addr(), h), confighttp.WithErrorHandler(h.rejected))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	done := make(chan struct{})
	e.coordinator, e.metrics, e.listener, e.server, e.done = c, registration, listener, server, done
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
		}
	}()
	e.settings.Logger.Info("retroactive sampling is coordinated", zap.Stringer("address", listener.Addr()))
	return nil
}

// Shutdown answers the agents that wait, and closes their connections.
func (e *retroExtension) Shutdown(ctx context.Context) error {
	if e.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	close(e.coordinator.stop)
	err := e.server.Shutdown(ctx)
	if err != nil {
		e.settings.Logger.Info("requests of agents were cut off", zap.Error(err))
		err = e.server.Close()
	}
	<-e.done
	e.server, e.listener = nil, nil
	return errors.Join(err, e.metrics.Unregister())
}
