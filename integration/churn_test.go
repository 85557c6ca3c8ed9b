package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/workloads"
)

// churnCostEnv names a file for what discovery costs; the test is larger then.
// `make discovery-cost` sets it.
const churnCostEnv = "TARE_DISCOVERY_COST"

// churn is containers that come and go: services, each one nginx with its
// workers, in network namespaces of their own.
type churn struct {
	services, workers, namespaces, rounds int
}

// incarnation is a service in one container.
type incarnation struct {
	name, container, ns string
	port                int
	process             *workloads.Process
	first               time.Time // when it accepted a connection
}

const churnConf = `daemon off;
worker_processes %d;
user nobody nogroup;
pid %[2]s/nginx.pid;
error_log stderr error;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path %[2]s/body;
    proxy_temp_path %[2]s/proxy;
    fastcgi_temp_path %[2]s/fastcgi;
    uwsgi_temp_path %[2]s/uwsgi;
    scgi_temp_path %[2]s/scgi;
    %[3]s
}
`

// Containers come and go with their processes and network namespaces: every one
// is found, its spans have its own name and container.id, and as many indices are
// used as there are services in containers.
func TestContainersComeAndGo(t *testing.T) {
	t.Parallel()
	need(t, "nginx", "ip", "sh")
	c := churn{services: 20, workers: 14, namespaces: 8, rounds: 3}
	results := os.Getenv(churnCostEnv)
	if results != "" {
		c = churn{services: 200, workers: 9, namespaces: 50, rounds: 5}
	}
	cgroups := cgroupFor(t) // before the services: it is removed when they have ended
	st, s := newStack(t), newSink(t)
	ports := make([]int, c.services)
	args := []string{"--metrics", "requests"}
	for i := range ports {
		ports[i] = testkit.FreePort(t)
		args = append(args, "--port", fmt.Sprintf("s%d=%d", i, ports[i]))
	}
	namespaces := make([]string, c.namespaces)
	for i := range namespaces {
		namespaces[i] = newNamespace(t)
	}
	containers := 0
	begin := func(i int) *incarnation {
		containers++
		in := &incarnation{
			name: "s" + itoa(i), port: ports[i], ns: namespaces[i%c.namespaces],
			container: fmt.Sprintf("%064x", uint64(os.Getpid())<<32|uint64(containers)),
		}
		cgroup := filepath.Join(cgroups, in.container)
		if err := os.Mkdir(cgroup, 0o755); err != nil { //nolint:gosec // a cgroup
			t.Fatal(err)
		}
		prefix := filepath.Join(st.g.Dir, in.name+"-"+itoa(containers))
		conf := st.file(filepath.Base(prefix)+"/nginx.conf", fmt.Sprintf(churnConf, c.workers, prefix, answer(loopback(in.port))))
		in.process = st.service(in.name, "", nil, "sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(cgroup, "cgroup.procs"),
			program("ip"), "netns", "exec", in.ns, program("nginx"), "-p", prefix, "-c", conf)
		return in
	}
	running := make([]*incarnation, c.services)
	for i := range running {
		running[i] = begin(i)
	}
	for _, in := range running {
		in.ready(t)
	}
	a := trace(t, s, nil, args...)
	idle := 0.0
	if results != "" {
		idle = measureCPU(t, a.PID(), time.Minute) // with scans
	}
	at := time.Now()
	askAll(t, running, "old", 3)
	m := a.settle()
	wantSpans(t, s, running, "old", 3)
	t.Logf("%d processes, %d services, %d network namespaces, found in %v", c.services*(c.workers+1), c.services, c.namespaces, time.Since(at))

	// A third of the services, and of the namespaces, ends and begins anew.
	var firsts []float64
	var cpu, lasted float64
	for round := range c.rounds {
		before, began := ticks(t, a.PID()), time.Now()
		var fresh []*incarnation
		for i := round % 3; i < c.services; i += 3 {
			if err := running[i].process.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		for n := round % 3; n < c.namespaces; n += 3 {
			moved := namespaces[n]
			namespaces[n] = newNamespace(t)
			for i := range running { // what stays there ends with its namespace
				if running[i].ns == moved && i%3 != round%3 {
					if err := running[i].process.Stop(); err != nil {
						t.Fatal(err)
					}
				}
			}
			sh(t, "ip", "netns", "del", moved)
		}
		for i := range running {
			select {
			case <-running[i].process.Done():
				running[i] = begin(i)
				fresh = append(fresh, running[i])
			default:
			}
		}
		firsts = append(firsts, firstTraced(t, s, fresh, fmt.Sprintf("new%d", round))...)
		cpu, lasted = cpu+ticks(t, a.PID())-before, lasted+time.Since(began).Seconds()
		path := fmt.Sprintf("all%d", round)
		askAll(t, running, path, 3)
		m = a.settle()
		wantSpans(t, s, running, path, 3)
	}
	slices.Sort(firsts)
	result := map[string]any{
		"processes": c.services * (c.workers + 1), "services": c.services, "namespaces": c.namespaces, "containers": containers,
		"cpu_idle": idle, "cpu_churn": cpu / lasted, "began_per_second": float64(len(firsts)) * float64(c.workers+1) / lasted,
		"first_traced_ms_median": firsts[len(firsts)/2], "first_traced_ms_max": firsts[len(firsts)-1],
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if results != "" {
		if err := os.WriteFile(results, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.int("tare_services"); got < c.services || got > containers {
		t.Errorf("%d services have an index, of %d that run and %d containers since the agent began", got, c.services, containers)
	}
	if m.lost("service_unknown") > 0 || m[`tare_connections_total{state="unarmed"}`] > 0 {
		t.Errorf("metrics:\n%v", m)
	}
	if got, want := strings.Count(a.Log.String(), "msg=service"), c.services; got != want {
		t.Errorf("the log tells of %d services, want each of %d once", got, want)
	}
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := "tare-c-" + anotherName()
	sh(t, "ip", "netns", "add", ns)
	t.Cleanup(func() {
		if _, err := os.Stat("/run/netns/" + ns); err == nil {
			sh(t, "ip", "netns", "del", ns)
		}
	})
	sh(t, "ip", "-n", ns, "link", "set", "lo", "up")
	return ns
}

func resourceAttr(r *span.Resource, key string) string {
	for _, a := range r.Attrs {
		if a.Key == key {
			return a.Text()
		}
	}
	return ""
}

// cgroupFor makes a cgroup for the test, below which containers have theirs.
func cgroupFor(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cgroupRoot(t), fmt.Sprintf("tare-churn-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a cgroup
		t.Fatal(err)
	}
	t.Cleanup(func() {
		children, _ := filepath.Glob(dir + "/*/cgroup.procs")
		for _, child := range children {
			controlGroup{filepath.Dir(child)}.remove(t)
		}
		controlGroup{dir}.remove(t)
	})
	return dir
}

func cgroupRoot(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
			return root
		}
	}
	refuse(t, "no cgroup v2")
	return ""
}

// inNamespace runs fn on a thread in a network namespace.
func inNamespace(t *testing.T, ns string, fn func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		f, err := os.Open("/run/netns/" + ns)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			_ = f.Close()
		}
		if err == nil {
			fn()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("network namespace %s: %v", ns, err)
	}
}

// get asks a service over a new connection; its namespace is the thread's.
func (in *incarnation) get(path string) error {
	c, err := net.DialTimeout("tcp4", loopback(in.port), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Patient(5 * time.Second)))
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 512))
	return err
}

// ready waits until the service accepts connections.
func (in *incarnation) ready(t *testing.T) {
	t.Helper()
	inNamespace(t, in.ns, func() {
		for end := testkit.NewDeadline(deadline); ; time.Sleep(2 * time.Millisecond) {
			if c, err := net.DialTimeout("tcp4", loopback(in.port), time.Second); err == nil {
				_ = c.Close()
				in.first = time.Now()
				return
			}
			if end.Over() {
				t.Errorf("%s does not listen within %v: %v", in.name, deadline, in.process.Output())
				return
			}
		}
	})
}

// askAll asks every service n times, with its name and container in the path.
func askAll(t *testing.T, all []*incarnation, path string, n int) {
	t.Helper()
	for _, in := range all {
		inNamespace(t, in.ns, func() {
			for k := range n {
				if err := in.get(fmt.Sprintf("%s/%s/%s/%d", path, in.name, in.container, k)); err != nil {
					t.Errorf("%s: %v", in.name, err)
				}
			}
		})
	}
}

// wantSpans requires n server spans of every service below a path, each with
// the resource of the container that was asked.
func wantSpans(t *testing.T, s *sink, all []*incarnation, path string, n int) {
	t.Helper()
	got := map[string]int{}
	for _, sp := range s.all() {
		at, _ := sp.Attr("url.path")
		parts := strings.Split(at.Str, "/")
		if len(parts) != 5 || parts[1] != path {
			continue
		}
		if container := resourceAttr(sp.Resource, "container.id"); sp.Resource.Service != parts[2] || container != parts[3] {
			t.Errorf("%s is a span of %s in container %s", at.Str, sp.Resource.Service, container)
		}
		got[parts[2]]++
	}
	missing := 0
	for _, in := range all {
		if got[in.name] != n {
			missing++
			if missing <= 3 {
				t.Errorf("%s: %d spans of %s, want %d", path, got[in.name], in.name, n)
			}
		}
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d services have not all their spans", path, missing, len(all))
	}
}

// firstTraced asks services that have just begun until all are traced, and
// tells how long after the first connection each was, in ms.
func firstTraced(t *testing.T, s *sink, fresh []*incarnation, path string) (ms []float64) {
	t.Helper()
	type request struct {
		in *incarnation
		n  int
	}
	sent := map[request]time.Time{}
	traced := map[*incarnation]time.Time{}
	byContainer := map[string]*incarnation{}
	for _, in := range fresh {
		in.ready(t)
		byContainer[in.container] = in
	}
	from := s.count()
	for n, end := 0, testkit.NewDeadline(3*deadline); len(traced) < len(fresh); n++ {
		for _, in := range fresh {
			if _, ok := traced[in]; ok {
				continue
			}
			inNamespace(t, in.ns, func() {
				sent[request{in, n}] = time.Now()
				if err := in.get(fmt.Sprintf("%s/%s/%s/%d", path, in.name, in.container, n)); err != nil {
					t.Errorf("%s: %v", in.name, err)
				}
			})
		}
		for _, sp := range s.since(from) {
			at, _ := sp.Attr("url.path")
			parts := strings.Split(at.Str, "/")
			if len(parts) != 5 || parts[1] != path {
				continue
			}
			in := byContainer[parts[3]]
			k, err := strconv.Atoi(parts[4])
			if err != nil || in == nil {
				t.Fatalf("a span of %s", at.Str)
			}
			if when, ok := traced[in]; !ok || sent[request{in, k}].Before(when) {
				traced[in] = sent[request{in, k}]
			}
		}
		if end.Over() {
			t.Fatalf("%d of %d services are traced within %v", len(traced), len(fresh), 3*deadline)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, in := range fresh {
		ms = append(ms, float64(traced[in].Sub(in.first))/1e6)
	}
	return ms
}

// ticks is the CPU time of a process, in seconds.
func ticks(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return (user + system) / 100 // USER_HZ
}

// measureCPU is the share of a CPU that a process takes.
func measureCPU(t *testing.T, pid int, d time.Duration) float64 {
	t.Helper()
	before := ticks(t, pid)
	time.Sleep(d)
	return (ticks(t, pid) - before) / d.Seconds()
}
