package tracer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/scrape"
	"github.com/tare-trace/tare/workloads"
)

// command is any tracer that a command line starts and that sends its spans by OTLP.
type command struct{}

func (command) Facts(t *experiment.Tracer) Facts {
	return Facts{Traces: true, Within: t.Process != nil && t.Process.Within, Takes: time.Second}
}

func (command) Check(t *experiment.Tracer) error {
	errs := []error{noAgent(t), noSampler(t)}
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("tracer "+t.Name+": process: "+format, args...))
	}
	p := t.Process
	if p == nil {
		add("say how it is started: command, ready, read_back")
		return errors.Join(errs...)
	}
	if len(p.Command) == 0 {
		add("command: there is nothing to start: give a program and its arguments")
	}
	ways := 0
	for _, there := range []bool{p.Ready.URL != "", p.Ready.Output != "", len(p.Ready.Command) > 0} {
		if there {
			ways++
		}
	}
	if ways != 1 {
		add("ready: say when it traces, by one of url, output and command")
	}
	if _, err := regexp.Compile(p.Ready.Output); err != nil {
		add("ready: output: %w", err)
	}
	if len(p.ReadBack) == 0 {
		add(`read_back: give a command that prints the configuration which runs, such as [sh, -c, "tr '\\0' '\\n' </proc/{pid}/environ"]`)
	}
	return errors.Join(errs...)
}

func (command) Available(_ context.Context, t *experiment.Tracer, _ *Host) error {
	if _, err := exec.LookPath(t.Process.Command[0]); err != nil {
		return fmt.Errorf("tracer %s: %w: install it, or give its path", t.Name, err)
	}
	return nil
}

const (
	readyWithin = time.Minute      // by default
	askWithin   = 10 * time.Second // of one command that asks
	flushWithin = 30 * time.Second // to send what it holds, at its end
)

// Start returns when the tracer is ready.
func (command) Start(ctx context.Context, t Target) (Session, error) {
	group, err := workloads.NewGroup("tare-tracer")
	if err != nil {
		return nil, err
	}
	group.Grace = flushWithin
	c := &commanded{target: t, process: t.Variant.Tracer.Process, group: group}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// commanded is such a tracer that runs.
type commanded struct {
	target  Target
	process *experiment.Process
	group   *workloads.Group
	running *workloads.Process
	service *service // what the workload itself has to say; nil: it is not asked
	dir     string
	asked   map[string]string

	looked time.Time
	pids   []int

	once sync.Once
	err  error // of Stop
}

func (c *commanded) name() string { return c.target.Variant.Tracer.Name }

// expand replaces what stands for something in a text.
func (c *commanded) expand(text string) string {
	p := c.target.Sink
	p.Rate = c.target.Variant.Rate
	var ports, pids []string
	for _, s := range c.target.Chain.Services {
		if s.Dependency {
			continue
		}
		ports = append(ports, strconv.Itoa(s.Port))
		for _, pid := range s.PIDs {
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	pairs := []string{"{ports}", strings.Join(ports, ","), "{pids}", strings.Join(pids, ",")}
	if c.running != nil {
		pairs = append(pairs, "{pid}", strconv.Itoa(c.running.PID()))
	}
	return strings.NewReplacer(pairs...).Replace(p.Expand(text))
}

func (c *commanded) argv(of []string) []string {
	out := make([]string, len(of))
	for i, a := range of {
		out[i] = c.expand(a)
	}
	return out
}

func (c *commanded) start(ctx context.Context) (err error) {
	if len(c.target.Variant.Tracer.Expect) > 0 {
		c.service = newService(c.target)
	}
	if c.dir, err = os.Getwd(); err != nil {
		return err
	}
	argv := c.argv(c.process.Command)
	// Here, and not where it is started: the error says more.
	if argv[0], err = exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("tracer %s: %w", c.name(), err)
	}
	if argv[0], err = filepath.Abs(argv[0]); err != nil {
		return err
	}
	c.asked = map[string]string{"command": strings.Join(argv, " ")}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "OTEL_") })
	for _, k := range slices.Sorted(maps.Keys(c.process.Env)) {
		c.asked[k] = c.expand(c.process.Env[k])
		env = append(env, k+"="+c.asked[k])
	}
	if c.running, err = c.group.StartIn(c.dir, c.name(), workloads.WithResolv(c.target.Resolv, argv), env); err != nil {
		return err
	}
	return c.await(ctx)
}

// await waits until the tracer is ready.
func (c *commanded) await(ctx context.Context) error {
	within := c.process.ReadyWithin.Std()
	if within == 0 {
		within = readyWithin
	}
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error
	err := c.running.Await(waiting, func(ctx context.Context) error {
		err := c.ready(ctx)
		if waiting.Err() == nil {
			last = err
		}
		return err
	}, c.target.Say)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("tracer %s is not ready after %v (process.ready, ready_within): %w; the last that it wrote:\n%s", c.name(), within, last, c.running.Output())
}

func (c *commanded) ready(ctx context.Context) error {
	switch r := c.process.Ready; {
	case r.URL != "":
		body, err := scrape.Open(ctx, scrape.Once, c.expand(r.URL))
		if err != nil {
			return err
		}
		return body.Close()
	case r.Output != "":
		if !regexp.MustCompile(r.Output).MatchString(c.running.Output()) { // Check has compiled it
			return fmt.Errorf("it has not written %q", r.Output)
		}
		return nil
	default:
		_, err := c.ask(ctx, r.Command)
		return err
	}
}

// ask runs a command, and returns what it prints.
func (c *commanded) ask(ctx context.Context, of []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	argv := c.argv(of)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the user's own experiment
	cmd.Dir, cmd.WaitDelay = c.dir, time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(append(out, stderr.Bytes()...)))
	}
	return out, nil
}

// ReadBack asks by the tracer's own command, then what is expected of the workload itself.
func (c *commanded) ReadBack(ctx context.Context) (Reading, error) {
	r := Reading{Asked: c.asked}
	if err := c.Alive(); err != nil {
		return r, err
	}
	said, err := c.ask(ctx, c.process.ReadBack)
	if err == nil {
		r.Config, err = c.parseReadBack(said)
	}
	if err != nil {
		return r, fmt.Errorf("tracer %s: reading the running configuration back: %w", c.name(), err)
	}
	for _, key := range slices.Sorted(maps.Keys(c.process.Expect)) {
		want := c.expand(c.process.Expect[key])
		got, ok := lookUp(r.Config, key)
		if !ok {
			return r, fmt.Errorf("tracer %s: what runs does not tell %q: it tells %s", c.name(), key, strings.Join(slices.Sorted(maps.Keys(r.Config)), ", "))
		}
		if text := fmt.Sprint(got); !same(text, want) {
			return r, fmt.Errorf("tracer %s: what runs says %s=%s, and should say %s", c.name(), key, text, want)
		}
	}
	if c.service != nil {
		s, err := c.service.ReadBack(ctx)
		r.Config["service"] = s.Config
		return r, err
	}
	return r, nil
}

// parseReadBack reads what the command printed. Of lines, which may be the whole environment
// of the user, with secrets, it keeps those that the experiment sets or expects: results
// are published.
func (c *commanded) parseReadBack(said []byte) (map[string]any, error) {
	config, lines, err := parseReadBack(said)
	if lines {
		maps.DeleteFunc(config, func(key string, _ any) bool {
			_, set := c.process.Env[key]
			_, expected := c.process.Expect[key]
			return !set && !expected
		})
	}
	return config, err
}

// parseReadBack reads a JSON object, or lines KEY=VALUE; what is between such lines is left out.
func parseReadBack(said []byte) (config map[string]any, lines bool, err error) {
	config = map[string]any{}
	if said = bytes.TrimSpace(said); bytes.HasPrefix(said, []byte("{")) {
		dec := json.NewDecoder(bytes.NewReader(said))
		dec.UseNumber()
		if err := dec.Decode(&config); err != nil {
			return nil, false, fmt.Errorf("read_back: it begins as a JSON object and is none: %w", err)
		}
		return config, false, nil
	}
	for line := range strings.Lines(string(said)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key != "" {
			config[key] = value
		}
	}
	if len(config) == 0 {
		return nil, true, errors.New("read_back: it printed neither a JSON object nor a line KEY=VALUE")
	}
	return config, true, nil
}

// PIDs are the tracer's process and all below it, as they were a second ago at most: to look
// for them means to walk through all processes of the machine.
func (c *commanded) PIDs() []int {
	if time.Since(c.looked) >= time.Second {
		c.pids, c.looked = c.running.PIDs(), time.Now()
	}
	return c.pids
}

// Alive is an error if the tracer has ended.
func (c *commanded) Alive() error {
	select {
	case <-c.running.Done():
		return fmt.Errorf("tracer %w", c.running.Exited())
	default:
		return nil
	}
}

// Stop ends the tracer, and gives it time to send what it still holds.
func (c *commanded) Stop() error {
	c.once.Do(func() {
		if c.service != nil {
			c.err = c.service.Stop()
		}
		c.err = errors.Join(c.err, c.group.Stop())
	})
	return c.err
}
