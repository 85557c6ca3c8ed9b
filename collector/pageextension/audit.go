package pageextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/tare-trace/tare/collector/internal/guard"
	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/otel/lean/logfile"
	"github.com/tare-trace/tare/web"
)

// AuditConfig says where it is written who asked what.
type AuditConfig struct {
	// Path of the file, of which each line is a JSON object; "" (default): none is written. Its directory must exist.
	Path string `mapstructure:"path"`
	// MaxFileSize and MaxFileAge rotate the file; default 64MiB and 1d.
	MaxFileSize storeextension.Size `mapstructure:"max_file_size"`
	MaxFileAge  duration.Duration   `mapstructure:"max_file_age"`
	// MaxTotalSize of all files together, the oldest are removed; default 1GiB.
	MaxTotalSize storeextension.Size `mapstructure:"max_total_size"`
	// Sync has every query wait until its line is on the disk.
	Sync bool `mapstructure:"sync"`
	// Required refuses queries that cannot be recorded. Without it they are answered, and counted.
	Required bool `mapstructure:"required"`
	_        struct{}
}

// Validate reports what cannot work.
func (c *AuditConfig) Validate() error {
	switch {
	case c.Path == "" && *c != (AuditConfig{}):
		return errors.New("`path` is empty: name the file")
	case c.Path == "":
		return nil
	case c.MaxFileAge < 0:
		return errors.New("`max_file_age` is negative; 0 means the default")
	}
	return c.file().Validate()
}

func (c *AuditConfig) file() logfile.Config {
	return logfile.Config{
		Path: c.Path, MaxFileBytes: int64(c.MaxFileSize), MaxFileAge: time.Duration(c.MaxFileAge), MaxTotalBytes: int64(c.MaxTotalSize), Sync: c.Sync,
	}.WithDefaults()
}

// Bounds of a line.
const (
	maxText       = 400 // bytes of a path, of a value
	maxParameters = 64  // values
)

// auditLine is one request. It has no token, whether it was right or wrong.
type auditLine struct {
	Time       string              `json:"time"`   // RFC 3339
	Event      string              `json:"event"`  // answered, refused
	Reader     string              `json:"reader"` // name of the token, or of the user; "" if nobody authenticated
	Client     string              `json:"client"` // address and port
	Method     string              `json:"method"`
	Route      string              `json:"route"` // "" if there is no such path, and of what is refused before
	Path       string              `json:"path"`
	Parameters map[string][]string `json:"parameters"`
	Services   []string            `json:"services"` // asked for, or with spans in the answer
	Traces     int                 `json:"traces"`   // in the answer, or counted in it
	Status     int                 `json:"status"`   // of HTTP
	Reason     string              `json:"reason,omitempty"`
	Unlogged   int                 `json:"unlogged,omitempty"` // refusals before this one that were too many to be written
}

// audit writes who asked what.
type audit struct {
	config   *AuditConfig
	log      *zap.Logger
	file     *logfile.Writer
	refusals *guard.Limit
	lines    metric.Int64Counter
	failures metric.Int64Counter
}

func newAudit(set component.TelemetrySettings, c *AuditConfig) (*audit, error) {
	meter := set.MeterProvider.Meter("github.com/tare-trace/tare/collector/pageextension")
	lines, err := meter.Int64Counter("tare_page_audit_lines", metric.WithUnit("{line}"),
		metric.WithDescription("Lines of the audit log, by event."))
	failures, err2 := meter.Int64Counter("tare_page_audit_failures", metric.WithUnit("{line}"),
		metric.WithDescription("Lines that could not be written to the audit log."))
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("make the counters of the audit log: %w", err)
	}
	file, err := logfile.NewWriter(c.file())
	if err != nil {
		return nil, fmt.Errorf("`audit`: %w", err)
	}
	return &audit{config: c, log: set.Logger, file: file, refusals: guard.NewLimit(), lines: lines, failures: failures}, nil
}

// asked records a query that is about to be answered. Its error is why the query must not be answered.
func (a *audit) asked(q web.Asked) error {
	l := lineOf(q.Request, q.Status)
	l.Event, l.Route, l.Services, l.Traces = "answered", q.Route, append(l.Services, q.Services...), q.Traces
	if q.Status == http.StatusServiceUnavailable || q.Status == http.StatusTooManyRequests {
		l.Event = "refused"
	}
	err := a.write(q.Request, &l)
	if a.config.Required {
		return err
	}
	return nil
}

// refused records a request that is refused before anything is asked. Who cannot authenticate does not fill the log.
func (a *audit) refused(r *http.Request, status int, reason string) {
	ok, unlogged := a.refusals.Take("refused")
	if !ok {
		return
	}
	l := lineOf(r, status)
	l.Event, l.Reason, l.Unlogged = "refused", cut(reason), unlogged
	_ = a.write(r, &l) // it is refused in any case
}

func (a *audit) write(r *http.Request, l *auditLine) error {
	b, err := json.Marshal(l)
	if err == nil {
		err = a.file.WriteLine(b)
	}
	ctx := context.WithoutCancel(r.Context())
	if err != nil {
		a.failures.Add(ctx, 1)
		what := "queries are answered without a record"
		if a.config.Required {
			what = "queries are refused"
		}
		a.log.Error("the audit log cannot be written: "+what, zap.String("path", a.config.Path), zap.Error(err))
		return err
	}
	a.lines.Add(ctx, 1, metric.WithAttributes(attribute.String("event", l.Event)))
	return nil
}

func (a *audit) close() error { return a.file.Close() }

func lineOf(r *http.Request, status int) auditLine {
	who, token := readerOf(r)
	plain := func(text string) string {
		if token != "" {
			text = strings.ReplaceAll(text, token, "***")
		}
		return cut(text)
	}
	l := auditLine{
		Time: time.Now().UTC().Format(time.RFC3339Nano), Reader: who, Client: r.RemoteAddr, Method: cut(r.Method), Path: plain(r.URL.Path),
		Parameters: map[string][]string{}, Services: []string{}, Status: status,
	}
	n := 0
	for key, values := range r.URL.Query() {
		for _, v := range values {
			if n++; n > maxParameters {
				return l
			}
			if hidden := guard.Hide("?" + key + "=" + url.QueryEscape(v)); strings.HasSuffix(hidden, "=***") {
				v = "***"
			}
			key := plain(key)
			l.Parameters[key] = append(l.Parameters[key], plain(v))
		}
	}
	return l
}

// readerOf returns the name of who asks, and the token that was presented.
func readerOf(r *http.Request) (name, token string) {
	if a, ok := r.Context().Value(asking{}).(asker); ok {
		return a.name, a.token
	}
	if auth := client.FromContext(r.Context()).Auth; auth != nil {
		for _, attribute := range []string{"username", "subject"} {
			if s, ok := auth.GetAttribute(attribute).(string); ok && s != "" {
				name = s
				break
			}
		}
	}
	return cut(name), presented(r)
}

// clientOf names who asks, so that nobody's queries wait for those of another: by name where readers authenticate, else
// by address.
func clientOf(r *http.Request) string {
	if name, _ := readerOf(r); name != "" {
		return "reader " + name
	}
	return web.ClientOf(r)
}

func cut(text string) string {
	if len(text) > maxText {
		return text[:maxText] + "…"
	}
	return text
}
