package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/workloads"
)

// The load that keeps the page alive: enough to watch, too little to feel.
const (
	pageRate        = 8 // requests/s
	pageConnections = 4
)

// page is `tare run` on the chain, as a user would run it, with a store of its
// own that goes with it.
type page struct {
	group   *workloads.Group
	chain   *workloads.Chain
	process *workloads.Process
	url     string
}

// servePage shows the chain's traces until ctx ends, which is no error.
func servePage(ctx context.Context, opts Options, out, stderr io.Writer) (err error) {
	p := &page{url: "http://" + opts.Page + "/"}
	defer func() { err = errors.Join(err, p.stop()) }()
	if p.group, err = workloads.NewGroup("tare-demo"); err != nil {
		return err
	}
	if p.chain, err = workloads.Start(ctx, opts.Chain, workloads.Options{}); err != nil {
		return interrupted(ctx, err)
	}
	if err := p.start(opts); err != nil {
		return err
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, format+"\n", args...) }
	if err := p.process.Await(ctx, p.answers, say); err != nil {
		return interrupted(ctx, fmt.Errorf("%w\n%s", err, pageAdvice))
	}
	if _, err := fmt.Fprintf(out, "\npage: %s (Ctrl-C ends it)\n", p.url); err != nil {
		return err
	}
	return p.busy(ctx)
}

// interrupted is nil where an error only says that the user had enough.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *page) start(opts Options) error {
	argv := []string{
		opts.Tare, "run", "--store", filepath.Join(p.group.Dir, "store"), "--page", opts.Page,
		"--otlp=false", "--bpf-stats", "--sampler-arg", strconv.FormatFloat(opts.Sample, 'f', -1, 64),
	}
	// The usual addresses may be those of an agent that runs here already.
	for _, flag := range []string{"--listen", "--collector-listen", "--retro-listen"} {
		address, err := workloads.FreeAddress()
		if err != nil {
			return err
		}
		argv = append(argv, flag, address)
	}
	for _, s := range p.chain.Services {
		if !s.Dependency {
			argv = append(argv, "--port", fmt.Sprintf("%s=%d", s.Name, s.Port))
		}
	}
	var err error
	p.process, err = p.group.Start("run", argv, ownEnvironment(os.Environ()))
	return err
}

// ownEnvironment unsets what the caller's environment would tell the agent;
// empty is the same as unset.
func ownEnvironment(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && (strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "TARE_")) {
			out = append(out, name+"=")
		}
	}
	return out
}

// answers is nil if the page is there.
func (p *page) answers(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", p.url, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

const pageAdvice = "the page is of `tare run` (another address: --page; no page: --exit)"

// busy sends a light load until ctx ends.
func (p *page) busy(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := load.Start(ctx, load.Options{
		Addr: p.chain.Entry, Connections: pageConnections, Rate: pageRate,
		Duration:   1 << 62, // of ctx
		AppendPath: p.path,
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	select {
	case <-ctx.Done():
		err = nil
	case <-p.process.Done():
		err = fmt.Errorf("%w\n%s", p.process.Exited(), pageAdvice)
	}
	cancel()
	_, _ = g.Wait() // what the chain answered is on the page
	return err
}

// path of request n. In the shop, one of 23 asks for an item whose number is
// longer than a memcached key may be: the shop answers 502.
func (p *page) path(dst []byte, n uint64) []byte {
	dst = p.chain.AppendPath(dst, n)
	if p.chain.Name == "shop" && n%23 == 22 {
		dst = append(dst, strings.Repeat("0", 256)...)
	}
	return dst
}

func (p *page) stop() error {
	var errs []error
	// The tracer first: it drains while the services are still there.
	if p.group != nil {
		errs = append(errs, p.group.Stop())
	}
	if p.chain != nil {
		errs = append(errs, p.chain.Stop())
	}
	return errors.Join(errs...)
}
