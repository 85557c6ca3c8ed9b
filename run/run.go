// Package run is `tare run`: agent, collector, store and page in one process. It
// translates a few flags into a collector's configuration and runs package collector with
// it; a configuration file of the collector can set everything else.
//
// All that it runs are components that docs/collector.md describes.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/otelcol"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/collector"
	"github.com/tare-trace/tare/collector/agentreceiver"
	"github.com/tare-trace/tare/run/internal/answer"
	"github.com/tare-trace/tare/run/internal/settings"
)

// Options of a run.
type Options struct {
	settings.Settings
	Agent           *config.Config                // nil: no service of this host is traced
	Reload          func() (config.Config, error) // reads Agent again; nil: never
	CollectorConfig string                        // file merged over the other settings, "" for none
	Log             *slog.Logger                  // of the agent; nil: the collector's, which logs less
	Version         string

	kept *agentreceiver.Kept
}

// Run runs until ctx ends or a component fails, and returns when all received spans are
// stored. It prints the page's address to out once the page answers.
func Run(ctx context.Context, o Options, out io.Writer) error {
	uris, err := o.uris()
	if err != nil {
		return err
	}
	o.keepLastGood()
	ctx, cancel := context.WithCancel(ctx)
	o.kept = agentreceiver.NewKept(ctx)
	ready := make(chan struct{})
	var announced sync.WaitGroup
	announced.Go(func() {
		select {
		case <-ready:
		case <-ctx.Done():
			return
		}
		if o.HasPage() {
			o.announce(ctx, out)
		}
	})
	err = collector.Run(ctx, collector.Options{
		Config:    uris,
		Factories: o.factories,
		Version:   o.Version,
		Log:       []zap.Option{zap.WithCaller(false)},
		Ready:     func() { close(ready) },
	})
	cancel()
	o.kept.Stop()
	announced.Wait()
	return explain(err)
}

// uris are the parts of the collector's configuration; later ones win.
func (o *Options) uris() ([]string, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	listen := ""
	if o.Agent != nil {
		listen = o.Agent.Listen
	}
	text, err := o.YAML(o.Agent != nil, listen)
	if err != nil {
		return nil, err
	}
	base := collector.DefaultConfig
	if !o.OTLP {
		if base, err = settings.TracesOnly(base); err != nil {
			return nil, err
		}
	}
	uris := []string{"yaml:" + base, "yaml:" + text}
	if o.CollectorConfig != "" {
		path, err := filepath.Abs(o.CollectorConfig)
		if err != nil {
			return nil, err
		}
		uris = append(uris, "file:"+path)
	}
	return uris, nil
}

// announce prints the page's address once it answers.
func (o *Options) announce(ctx context.Context, out io.Writer) {
	url, err := answer.Wait(ctx, settings.Reachable(o.Page))
	if err == nil { // else the run is over
		_, _ = fmt.Fprintf(out, "page: %s\n", url)
	}
}

// factories are the distribution's, with the agent configured by the options.
func (o *Options) factories() (otelcol.Factories, error) {
	f, err := collector.Components()
	if err != nil || o.Agent == nil {
		return f, err
	}
	cfg := *o.Agent
	if o.Reload != nil {
		// After SIGHUP the collector makes new receivers. A configuration that cannot
		// be read changes nothing, as in the agent itself.
		cfg, err = o.Reload()
		if err != nil {
			o.log().Error("the configuration cannot be read, the one before stays", "error", err)
		}
	}
	f.Receivers[agentreceiver.Type] = agentreceiver.NewFactory(
		agentreceiver.Configured(cfg, o.Reload), agentreceiver.Log(o.Log), agentreceiver.Keep(o.kept))
	return f, nil
}

// keepLastGood has Reload return, with an error, the configuration that was read last without one: at the start, by
// the agent while it runs, or after SIGHUP.
func (o *Options) keepLastGood() {
	if o.Agent == nil || o.Reload == nil {
		return
	}
	read, last, mu := o.Reload, *o.Agent, sync.Mutex{}
	o.Reload = func() (config.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		cfg, err := read()
		if err == nil {
			last = cfg
		}
		return last, err
	}
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// explain adds advice to an error that the defaults of this command cause.
func explain(err error) error {
	// Components wrap errors as text.
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) && !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		return err
	}
	return fmt.Errorf("%w\nanother program listens there: choose other addresses by --page, --listen, --collector-listen and --retro-listen, or leave OTLP to it by --otlp=false", err)
}
