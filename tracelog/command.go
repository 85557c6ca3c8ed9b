// Package tracelog is "tare logs": it reads spans back from log files that otel/lean/logfile and the
// collector's exporter tare_log write, and prints traces as trees or as OTLP. Lines of other loggers
// in between are skipped and counted. It reads, and changes nothing.
package tracelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/store"
)

// maxTraces is as many as one search of the store answers.
const maxTraces = 1000

type options struct {
	files   []string
	ids     []pcommon.TraceID
	service string
	failed  bool
	all     bool
	traces  int
	json    bool
}

// Command is "tare logs".
func Command() *cobra.Command {
	o := options{traces: 10}
	var ids []string
	cmd := &cobra.Command{
		Use:   "logs FILE...",
		Short: "Print traces as trees from log files alone",
		Long: `Reads spans from log files, one JSON object per line, as the Go library's exporter
logfile and the collector's exporter tare_log write them, also compressed by gzip;
"-" is standard input. Spans of one trace may be in several files, of several
services. Other lines are skipped, and counted on standard error.

It prints the traces that took longest, or those that are named, as trees.`,
		Example: `  tare logs /var/log/shop/spans.jsonl*
  tare logs --failed --service cart spans.jsonl
  tare logs --trace 4bf92f3577b34da6a3ce929d0e0e4736 *.jsonl
  tare logs --all --json spans.jsonl | tare diagnose -`,
		Args:         cobra.MinimumNArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			for _, text := range ids {
				id, err := parseTraceID(text)
				if err != nil {
					return err
				}
				o.ids = append(o.ids, id)
			}
			if err := o.validate(cmd.Flags().Changed("traces")); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&ids, "trace", nil, "the trace with this `id`, 32 hexadecimal digits; may be repeated")
	f.BoolVar(&o.failed, "failed", false, "only traces with a failed span")
	f.StringVar(&o.service, "service", "", "only traces with a span of this service")
	f.IntVarP(&o.traces, "traces", "n", o.traces, fmt.Sprintf("how many of the longest traces, 1 to %d", maxTraces))
	f.BoolVar(&o.all, "all", false, "all traces, the newest first")
	f.BoolVar(&o.json, "json", false, "print OTLP as JSON, a line for each trace")
	return cmd
}

func parseTraceID(text string) (id pcommon.TraceID, err error) {
	if parseID(text, id[:]) != nil {
		return id, cli.Usagef("--trace %q: write it as 32 hexadecimal digits that are not all 0", text)
	}
	return id, nil
}

func (o *options) validate(number bool) error {
	switch {
	case o.traces < 1 || o.traces > maxTraces:
		return cli.Usagef("--traces %d: use 1 to %d, or --all", o.traces, maxTraces)
	case o.all && number:
		return cli.Usagef("--all and --traces: one of them")
	case len(o.ids) > 0 && (o.all || o.failed || o.service != "" || number):
		return cli.Usagef("--trace names traces; leave out --all, --failed, --service and --traces")
	}
	return nil
}

// run reads the files into a store that is removed again, which joins and sorts traces of more spans
// than memory holds.
func (o *options) run(ctx context.Context, in io.Reader, out, said io.Writer) error {
	dir, err := os.MkdirTemp("", "tare-logs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := store.Open(store.Options{Dir: dir, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing was written that is to stay
	r := newReader(o.ids, func(td ptrace.Traces) error { return s.Write(ctx, td) })
	for _, name := range o.files {
		if err := r.file(ctx, name, in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	if text := r.counts.String(); text != "" {
		_, _ = fmt.Fprintln(said, "tare logs:", text) // the traces are what was asked for
	}
	if r.counts.spans == 0 {
		return errors.New("no span was found: is this what the exporters logfile and tare_log write?")
	}
	return o.print(ctx, s, out, said)
}

func (o *options) print(ctx context.Context, s *store.Store, out, said io.Writer) error {
	printed := 0
	show := func(id pcommon.TraceID) error {
		td, err := s.Trace(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("no span of trace %s is in the files", id)
		}
		if err != nil {
			return err
		}
		printed++
		if !o.json {
			if printed > 1 {
				if _, err := fmt.Fprintln(out); err != nil {
					return err
				}
			}
			return span.WriteTree(out, spans(td))
		}
		b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	for _, id := range o.ids {
		if err := show(id); err != nil {
			return err
		}
	}
	if len(o.ids) > 0 {
		return nil
	}
	q := store.Query{Service: o.service, Limit: o.traces, Sort: store.ByDuration}
	if o.all {
		q.Limit, q.Sort = maxTraces, store.ByTime
	}
	if o.failed {
		q.Status = store.Failed
	}
	for {
		found, err := s.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, t := range found.Traces {
			if err := show(t.TraceID); err != nil {
				return err
			}
		}
		if found.Truncated && !o.all {
			_, _ = fmt.Fprintln(said, "tare logs: there are too many traces to look at all of them; name fewer files, or --service") // beside the result
		}
		if q.After = found.Next; q.After == "" || !o.all {
			break
		}
	}
	if printed == 0 {
		return errors.New("no trace in the files matches")
	}
	return nil
}

// spans are those of the trace, as trees are printed from.
func spans(td ptrace.Traces) []span.Span {
	out := make([]span.Span, 0, td.SpanCount())
	for _, rs := range td.ResourceSpans().All() {
		resource := &span.Resource{}
		if v, ok := rs.Resource().Attributes().Get("service.name"); ok {
			resource.Service = v.AsString()
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				one := span.Span{
					TraceID: span.TraceID(s.TraceID()), ID: span.ID(s.SpanID()), Parent: span.ID(s.ParentSpanID()),
					Kind: span.Kind(s.Kind()), Name: s.Name(), Status: span.Status(s.Status().Code()), //nolint:gosec // the values are those of OTLP
					Start: uint64(s.StartTimestamp()), End: uint64(s.EndTimestamp()), Resource: resource,
				}
				for key, v := range s.Attributes().All() {
					one.Attrs = append(one.Attrs, span.String(key, v.AsString()))
				}
				out = append(out, one)
			}
		}
	}
	return out
}
