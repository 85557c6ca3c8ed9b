package integration

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
)

// tracer is a running `tare-agent`.
type tracer struct {
	*testkit.Child
	sink   *sink
	listen string
}

var noProxy = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patient(3 * time.Second)}

// scraper asks once, where noProxy is for what is asked again and again.
var scraper = &http.Client{Transport: noProxy.Transport, Timeout: testkit.Patient(time.Minute)}

// trace starts an agent and waits until it traces. It is stopped at the end of
// the test if it still runs, and must then end well.
func trace(t *testing.T, s *sink, env []string, args ...string) *tracer {
	t.Helper()
	a := launch(t, s, env, args...)
	a.Await(2*time.Minute, "the agent traces", a.healthy) // the kernel verifies programs meanwhile
	return a
}

// launch starts the agent that nodes run.
func launch(t *testing.T, s *sink, env []string, args ...string) *tracer {
	t.Helper()
	return launchAs(t, s, env, append([]string{filepath.Join(bin, "tare-agent")}, args...)...)
}

func launchAs(t *testing.T, s *sink, env []string, argv ...string) *tracer {
	t.Helper()
	return launchAt(t, loopback(testkit.FreePort(t)), s, env, argv...)
}

// launchAt has the agent listen where the test says, for one that is in another
// network namespace.
func launchAt(t *testing.T, listen string, s *sink, env []string, argv ...string) *tracer {
	t.Helper()
	wantTestProcessUntraced(t, argv)
	argv = append(argv, strings.Fields(os.Getenv("TARE_TEST_ARGS"))...) // of `make test-kernels`
	return &tracer{sink: s, listen: listen, Child: testkit.Spawn(t, "the agent", syscall.SIGTERM, 15*time.Second, append([]string{
		"PATH=" + os.Getenv("PATH"),
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.url,
		"OTEL_BSP_SCHEDULE_DELAY=200",
		// Several hosts are network namespaces of this one, and other tests may run beside.
		"TARE_INSTANCE=" + listen,
	}, slices.Concat(env, strings.Fields(os.Getenv("TARE_TEST_ENV")))...), append(argv, "--listen", listen)...)}
}

// wantTestProcessUntraced fails a test that runs beside others if its agent is told a port where the test process itself
// listens. The agent would trace the test process, and requests of all tests would be calls of a traced service.
func wantTestProcessUntraced(t *testing.T, argv []string) {
	t.Helper()
	if isAlone.Load() {
		return
	}
	text := strings.Join(argv, " ")
	if i := slices.Index(argv, "--config"); i >= 0 && i+1 < len(argv) {
		file, _ := os.ReadFile(argv[i+1]) // if it is missing, the agent reports it
		text += string(file)
	}
	ours := listensOn()
	for _, number := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
		if ours[number] {
			t.Fatalf("the agent would trace the test process, which listens on port %s: let a child listen there, or begin the test with alone", number)
		}
	}
}

// listensOn are the ports on which the test process listens.
func listensOn() map[string]bool {
	open, _ := os.ReadDir("/proc/self/fd")
	ports := map[string]bool{}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
			continue
		}
		switch at, _ := unix.Getsockname(fd); at := at.(type) {
		case *unix.SockaddrInet4:
			ports[itoa(at.Port)] = true
		case *unix.SockaddrInet6:
			ports[itoa(at.Port)] = true
		}
	}
	return ports
}

func (a *tracer) healthy() bool {
	resp, err := noProxy.Get("http://" + a.listen + "/healthz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (a *tracer) signal(s syscall.Signal) {
	a.T.Helper()
	if err := a.Cmd.Process.Signal(s); err != nil {
		a.T.Fatalf("signal %v: %v", s, err)
	}
}

// metrics are the samples at /metrics, by name and labels as they stand there.
type metrics map[string]float64

func (a *tracer) metrics() (metrics, error) {
	resp, err := scraper.Get("http://" + a.listen + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(line, '}'); i > 0 {
			key, value, ok = line[:i+1], strings.TrimSpace(line[i+1:]), true
		}
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && line[0] != '#' {
			m[key] = v
		}
	}
	if len(m) == 0 {
		return nil, fmt.Errorf("no samples at http://%s/metrics", a.listen)
	}
	return m, nil
}

func (a *tracer) mustMetrics() metrics {
	a.T.Helper()
	m, err := a.metrics()
	if err != nil {
		a.T.Fatalf("%v\n%s", err, a.Log)
	}
	return m
}

func (m metrics) lost(reason string) int { return m.int(`tare_lost_total{reason="` + reason + `"}`) }

// lostAll is what was lost for any reason.
func (m metrics) lostAll() (n int) {
	for key := range m {
		if strings.HasPrefix(key, "tare_lost_total{") {
			n += m.int(key)
		}
	}
	return n
}

// and adds the samples of other agents.
func (m metrics) and(others ...metrics) metrics {
	sum := maps.Clone(m)
	for _, o := range others {
		for key, v := range o {
			sum[key] += v
		}
	}
	return sum
}

func (m metrics) ignored(reason string) int {
	return m.int(`tare_tags_ignored_total{reason="` + reason + `"}`)
}

// notExported are spans that were built and lost on their way to the receiver.
func (m metrics) notExported() int {
	return m.lost("queue_full") + m.lost("export_failed") + m.lost("rejected") + m.lost("shutdown")
}

const recordsWritten = `tare_records_total{side="kernel"}`

// unread are the records that wait for the agent.
func (m metrics) unread() int {
	return m.int(recordsWritten) - m.int(`tare_records_total{side="agent"}`)
}

// idle reports that nothing is under way, but for so many spans that wait.
func (m metrics) idle(waiting int) bool {
	return m.unread() == 0 && m.int("tare_open_spans") <= waiting && m["tare_live_requests"] == 0 && m["tare_retro_waiting"] == 0
}

// sampled are the root decisions for a trace, at once or after the fact.
func (m metrics) sampled() int {
	return m.int(`tare_roots_total{sampled="true"}`) + m.int(`tare_roots_total{sampled="retro"}`)
}
func (m metrics) unsampled() int     { return m.int(`tare_roots_total{sampled="false"}`) }
func (m metrics) int(key string) int { return int(m[key]) }

// String shows Tare's own counters that are not 0.
func (m metrics) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] != 0 && strings.HasPrefix(k, "tare_") {
			fmt.Fprintf(&b, "  %s %v\n", k, m[k])
		}
	}
	return b.String()
}

// settle waits until nothing is under way any more: no request, no span, and
// everything that was built is at the sink.
func (a *tracer) settle() metrics {
	a.T.Helper()
	return a.quiet(0)
}

// quiet is settle where records were lost: spans may wait for them in vain.
func (a *tracer) quiet(waiting int) metrics {
	a.T.Helper()
	defer testkit.Waited(a.T, time.Now(), "nothing is under way")
	var m metrics
	last, same, enough := -1.0, 0, 3
	if waiting > 0 {
		enough = 10 // a second: longer than a span waits that lacks only its end
	}
	for deadline := testkit.NewDeadline(15 * time.Second); same < enough; time.Sleep(100 * time.Millisecond) {
		m = a.mustMetrics()
		spans := m["tare_spans_total"]
		quiet := m.idle(waiting) && spans == last
		if quiet {
			same++
		} else {
			same = 0
		}
		last = spans
		if deadline.Over() {
			a.T.Errorf("not quiet a minute after the load: something is still under way\n%v", m)
			return m
		}
	}
	// What was handed to the exporter was accepted by the receiver, which keeps it by then, or is counted as lost.
	if _, exports := m["tare_export_spans_total"]; exports {
		testkit.Until(a.T, 30*time.Second, "the receiver has all spans", func() bool {
			m = a.mustMetrics()
			return m.int("tare_export_spans_total")+m.notExported() >= int(last)
		})
	}
	return m
}

// programs are the ids of the kernel programs that the agent holds, and links
// how many links to hooks.
func (a *tracer) programs() (ids []ebpf.ProgramID, links int) {
	a.T.Helper()
	entries, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", a.PID()))
	if err != nil {
		a.T.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(e)
		if err != nil {
			continue // closed meanwhile
		}
		isLink := false
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			switch {
			case key == "link_id":
				isLink = true
			case key == "prog_id" && err == nil:
				if id := ebpf.ProgramID(n); !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
		if isLink {
			links++
		}
	}
	slices.Sort(ids)
	return ids, links
}

// wantPrograms requires that the agent holds the programs and links that it held
// before, but for the one hook that it lets go when nothing has to be proven for
// five seconds.
func (a *tracer) wantPrograms(ids []ebpf.ProgramID, links int) {
	a.T.Helper()
	nowIDs, nowLinks := a.programs()
	if !slices.Equal(ids, nowIDs) || nowLinks > links || nowLinks < links-1 {
		a.T.Errorf("%v programs and %d links before, %v and %d now", ids, links, nowIDs, nowLinks)
	}
}

// loaded are those of the programs that the kernel still has.
func loaded(t *testing.T, ids []ebpf.ProgramID) (left []string) {
	t.Helper()
	for _, id := range ids {
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatalf("program %d: %v", id, err)
		}
		info, err := p.Info()
		_ = p.Close()
		if err != nil {
			t.Fatalf("program %d: %v", id, err)
		}
		left = append(left, fmt.Sprintf("%d %s", id, info.Name))
	}
	return left
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
