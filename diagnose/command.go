// Package diagnose is "tare diagnose": it says what makes the slowest traces slow, of a
// store's directory, of a running tare by its page's address, or of OTLP files. The
// comparison is package web/rootcause; it reads, and changes nothing.
package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-trace/tare/collector/storeextension"
	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/internal/duration"
	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/rootcause"
)

// defaultPage is where tare run and tare collector serve their page.
const defaultPage = "http://127.0.0.1:4680"

type options struct {
	files     []string
	store     string
	page      string
	service   string
	operation string
	attrs     []string
	last      time.Duration
	share     float64
	traces    int
	json      bool
}

// Command is "tare diagnose".
func Command() *cobra.Command {
	// The default of `tare run` and `tare collector`.
	o := options{store: storeextension.NewFactory().CreateDefaultConfig().(*storeextension.Config).Directory,
		share: rootcause.Share, traces: rootcause.DefaultTraces}
	cmd := &cobra.Command{
		Use:   "diagnose [FILE...]",
		Short: "Say which service makes the slowest requests slow",
		Long: `Compares the slowest 2% of the traces of each entry operation with the middle half,
by what every operation adds to the critical path, and says which operations make
the slow ones slow: how much of it each explains, with 95% intervals; what is slow
itself and what only waits; or that it cannot tell, why, and what to do.

It reads the traces of a store's directory; or, if another process has that open
or --page is given, of a running tare; or of files with OTLP, as JSON (also one
object per line, as the collector's file exporter writes) or protobuf, "-" for
standard input.`,
		Example: `  tare diagnose --service frontend --last 1h
  tare diagnose --page http://127.0.0.1:4680 --share 0.01
  tare diagnose traces.json --json`,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			named := func(flag string) bool { return cmd.Flags().Changed(flag) }
			if len(args) > 0 && (named("store") || named("page")) || named("store") && named("page") {
				return cli.Usagef("files, --store and --page: one of them at a time")
			}
			return run(cmd.Context(), o, named("store"), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.store, "store", o.store, "`directory` of the stored traces")
	f.StringVar(&o.page, "page", "", "`address` of the page of a running tare, such as "+defaultPage)
	f.StringVar(&o.service, "service", "", "only traces with a span of this service")
	cli.CompleteFlag(cmd, "service", func(cmd *cobra.Command) []string { return o.services(cmd.Context()) })
	f.StringVar(&o.operation, "operation", "", "only traces with a span of this name")
	f.StringArrayVar(&o.attrs, "attr", nil, "only traces with a span that has this attribute, as `key=value`, with * for any text, or key>=number; may be repeated")
	duration.Var(f, &o.last, "last", "only traces that are not older than this (default: all)")
	f.Float64Var(&o.share, "share", o.share, "which traces are slow: the slowest share, up to 0.25")
	f.IntVar(&o.traces, "traces", o.traces, "how many traces are read at most, the newest first")
	f.BoolVar(&o.json, "json", false, "print one JSON object, as the page's API answers")
	return cmd
}

func run(ctx context.Context, o options, storeNamed bool, in io.Reader, out io.Writer) error {
	if !(o.share > 0 && o.share <= rootcause.MaxShare) {
		return cli.Usagef("--share %v: use a number above 0, up to %v", o.share, rootcause.MaxShare)
	}
	if o.traces < 1 || o.traces > rootcause.MaxTraces {
		return cli.Usagef("--traces %d: use 1 to %d", o.traces, rootcause.MaxTraces)
	}
	d, err := o.diagnose(ctx, storeNamed, in)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	return rootcause.Print(out, d)
}

func (o *options) diagnose(ctx context.Context, storeNamed bool, in io.Reader) (rootcause.Diagnosis, error) {
	if o.page != "" {
		return o.ask(ctx, o.page)
	}
	dir := o.store
	if len(o.files) > 0 {
		var err error
		if dir, err = os.MkdirTemp("", "tare-diagnose"); err != nil {
			return rootcause.Diagnosis{}, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	} else if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return rootcause.Diagnosis{}, fmt.Errorf("there is no store in %s: name one by --store, a running tare by --page, or files", dir)
	}
	s, err := store.Open(store.Options{Dir: dir, NoSync: true})
	if errors.Is(err, store.ErrInUse) {
		d, asked := o.ask(ctx, defaultPage)
		if asked != nil || storeNamed {
			return d, fmt.Errorf("%w: another process has it open; ask that by --page %s", err, defaultPage)
		}
		return d, nil
	}
	if err != nil {
		return rootcause.Diagnosis{}, err
	}
	defer func() { _ = s.Close() }() // nothing was written that is to stay
	for _, name := range o.files {
		if err := load(ctx, s, name, in); err != nil {
			return rootcause.Diagnosis{}, err
		}
	}
	q, err := o.query()
	if err != nil {
		return rootcause.Diagnosis{}, err
	}
	set := rootcause.NewSet()
	if err := set.Read(ctx, s, q, o.traces, time.Time{}); err != nil {
		return rootcause.Diagnosis{}, err
	}
	return set.Diagnose(o.share), nil
}

func (o *options) query() (store.Query, error) {
	q := store.Query{Service: o.service, Operation: o.operation}
	if o.last > 0 {
		q.Start = time.Now().Add(-o.last)
	}
	for _, a := range o.attrs {
		c, err := store.ParseCondition(a)
		if err != nil {
			return q, cli.Usagef("--attr %s: write it as key=value, key=pattern*, key!=value, or key>=number: %w", a, err)
		}
		q.Conditions = append(q.Conditions, c)
	}
	return q, nil
}

// ask asks the API of a running tare.
func (o *options) ask(ctx context.Context, page string) (d rootcause.Diagnosis, err error) {
	if _, err := o.query(); err != nil {
		return d, err
	}
	base, err := url.Parse(page)
	if err != nil || base.Host == "" {
		return d, cli.Usagef("--page %s: use an address such as %s", page, defaultPage)
	}
	query := url.Values{"share": {strconv.FormatFloat(o.share, 'g', -1, 64)}, "traces": {strconv.Itoa(o.traces)}}
	for key, value := range map[string]string{"service": o.service, "operation": o.operation} {
		if value != "" {
			query.Set(key, value)
		}
	}
	for _, a := range o.attrs {
		query.Add("attr", a)
	}
	if o.last > 0 {
		query.Set("last", o.last.String())
	}
	u := base.JoinPath("api/v1/diagnose")
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return d, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return d, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var refusal struct{ Error string }
		if json.NewDecoder(answer.Body).Decode(&refusal) != nil || refusal.Error == "" {
			refusal.Error = "is this the page of a tare that can diagnose?"
		}
		return d, fmt.Errorf("%s answers %s: %s", page, answer.Status, refusal.Error)
	}
	return d, json.NewDecoder(answer.Body).Decode(&d)
}
