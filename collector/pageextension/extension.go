// Package pageextension is the collector extension `tare_page`: it serves the page, the
// JSON API and Jaeger's query API (package web) from the store of a tare_store extension.
//
// It decides who may read. On a loopback address everybody on this machine may, if the
// request's Host header names this machine. On another address authentication and TLS are
// required; without them the extension does not start. Each refused request is logged. It
// keeps no sessions and sets no cookies.
package pageextension

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
)

// shutdownTimeout is how long Shutdown waits for requests in progress.
const shutdownTimeout = 2 * time.Second

// Extension is the component's interface for other components.
type Extension interface {
	extension.Extension
	// Addr is the page's address; nil before Start and after Shutdown.
	Addr() net.Addr
}

type pageExtension struct {
	config   *Config
	settings extension.Settings
	listener net.Listener
	server   *http.Server
	audit    *audit // nil: none
	done     chan struct{}
}

var (
	_ Extension                       = (*pageExtension)(nil)
	_ extensioncapabilities.Dependent = (*pageExtension)(nil)
)

// Dependencies are the store and the authenticator, which start before and stop after
// this extension.
func (e *pageExtension) Dependencies() []component.ID {
	ids := []component.ID{e.config.Store}
	if e.config.ServerConfig.Auth.HasValue() {
		ids = append(ids, e.config.ServerConfig.Auth.Get().Config.AuthenticatorID)
	}
	return ids
}

func (e *pageExtension) Addr() net.Addr {
	if e.listener == nil {
		return nil
	}
	return e.listener.Addr()
}

// Start listens and serves. It checks the configuration again, because a program that
// builds it in code has not validated it.
func (e *pageExtension) Start(ctx context.Context, host component.Host) error {
	if err := e.config.Validate(); err != nil {
		return err
	}
	st, err := storeextension.Find(host, e.config.Store)
	if err != nil {
		return fmt.Errorf("`store`: %w", err)
	}
	refusals, err := newRefusals(e.settings.TelemetrySettings, e.config)
	if err != nil {
		return err
	}
	loopback, err := e.config.loopback()
	if err != nil {
		return err
	}
	var tokens *tokens
	if e.config.Tokens != "" {
		if tokens, err = openTokens(e.config.Tokens, e.settings.Logger); err != nil {
			return err
		}
	}
	if e.config.Audit.Path != "" {
		if e.audit, err = newAudit(e.settings.TelemetrySettings, &e.config.Audit); err != nil {
			return err
		}
		refusals.audit = e.audit
	}
	err = e.serve(ctx, host, st, refusals, tokens, loopback)
	if err != nil && e.audit != nil {
		err = errors.Join(err, e.audit.close())
		e.audit = nil
	}
	return err
}

func (e *pageExtension) serve(ctx context.Context, host component.Host, st *store.Store, refusals *refusals, tokens *tokens, loopback bool) error {
	o := web.Options{
		Store:   st,
		Health:  e.config.Health,
		Version: e.settings.BuildInfo.Version,
		Log:     slog.New(zapslog.NewHandler(e.settings.Logger.Core())),
		Timeout: e.config.QueryTimeout,
		Hosts:   e.config.Hosts,
		AnyHost: !loopback,
		Refused: refusals.refused,
		Busy:    refusals.busy,
		Client:  clientOf,
	}
	if e.audit != nil {
		o.Audit = e.audit.asked
	}
	handler := web.New(o)
	if tokens != nil {
		handler = tokens.authenticate(handler, refusals.unauthenticated)
	}
	server, err := e.config.ServerConfig.ToServer(ctx, host.GetExtensions(), e.settings.TelemetrySettings, handler,
		confighttp.WithErrorHandler(refusals.unauthenticated))
	if err != nil {
		return err
	}
	listener, err := e.config.ServerConfig.ToListener(ctx)
	if err != nil {
		return fmt.Errorf("the page cannot be served (set another `endpoint`): %w", err)
	}
	done := make(chan struct{})
	e.listener, e.server, e.done = listener, server, done
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
		}
	}()
	e.settings.Logger.Info("page is served", zap.String("url", e.url()))
	return nil
}

// url is the address for a browser.
func (e *pageExtension) url() string {
	a := e.listener.Addr()
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	scheme := "http"
	if e.config.ServerConfig.TLS.HasValue() {
		scheme = "https"
	}
	return scheme + "://" + a.String() + "/"
}

// Shutdown waits a short time for requests in progress, then closes their connections.
func (e *pageExtension) Shutdown(ctx context.Context) error {
	if e.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if err != nil {
		e.settings.Logger.Info("requests for the page were cut off", zap.Error(err))
		err = e.server.Close()
	}
	<-e.done
	e.server, e.listener = nil, nil
	if e.audit != nil {
		err = errors.Join(err, e.audit.close())
		e.audit = nil
	}
	return err
}
