package discover

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/config"
)

// fakeProc is a /proc tree that a test writes.
type fakeProc struct {
	t    *testing.T
	root string
}

type fakeProcess struct {
	pid     int
	exe     string
	cgroup  string
	netns   int
	sockets []int
	maps    string
	parent  int
}

const tableHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func row(port, state, inode int) string {
	return fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 %02X 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 100 0 0 10 0\n", port, state, inode)
}

func (f fakeProc) add(p fakeProcess, tcp, tcp6 string) {
	f.t.Helper()
	dir := filepath.Join(f.root, fmt.Sprint(p.pid))
	check := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	for _, d := range []string{"fd", "net", "ns"} {
		check(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	if p.exe != "" {
		check(os.Symlink(p.exe, filepath.Join(dir, "exe")))
	}
	check(os.Symlink(fmt.Sprintf("net:[%d]", p.netns), filepath.Join(dir, "ns/net")))
	check(os.Symlink("/dev/null", filepath.Join(dir, "fd/0")))
	for i, inode := range p.sockets {
		check(os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(dir, "fd", fmt.Sprint(i+3))))
	}
	for name, text := range map[string]string{
		"stat":     fmt.Sprintf("%d (a) b c) S %d %s%d 0 0\n", p.pid, p.parent, strings.Repeat("1 ", 17), 1000+p.pid),
		"cgroup":   "5:devices:/x\n0::" + p.cgroup + "\n",
		"maps":     p.maps,
		"net/tcp":  tableHead + tcp,
		"net/tcp6": tableHead + tcp6,
	} {
		check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func rules(t *testing.T, environ ...string) config.Config {
	t.Helper()
	c, err := config.Load(nil, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func inspect(s *Scanner, pid int) (p Process, ok bool, err error) {
	s.Inspect([]int{pid}, func(_ int, found Process, is bool, e error) {
		s.Listens(0) // as the agent does, of a process that has ended
		p, ok, err = found, is, e
	})
	return p, ok, err
}

func byPID(ps []Process) map[int]Process {
	m := map[int]Process{}
	for _, p := range ps {
		m[p.PID] = p
	}
	return m
}

func TestFakeTree(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	host4 := row(80, 10, 100) + row(80, 1, 101) + row(80, 6, 0) + row(8080, 10, 300)
	host6 := row(9005, 10, 400)
	f.add(fakeProcess{pid: 10, exe: "/usr/sbin/nginx", cgroup: "/system.slice/nginx.service", netns: 1, sockets: []int{100, 7}}, host4, host6)
	f.add(fakeProcess{pid: 11, exe: "/usr/sbin/nginx (deleted)", cgroup: "/system.slice/nginx.service", netns: 1, sockets: []int{100, 101}}, host4, host6)
	f.add(fakeProcess{pid: 20, exe: "", netns: 1}, host4, host6) // kernel thread
	f.add(fakeProcess{pid: 30, exe: "/usr/bin/ruby3.1", cgroup: "/user.slice/user-0.slice/session-1.scope", netns: 1, sockets: []int{300}}, host4, host6)
	f.add(fakeProcess{pid: 31, exe: "/usr/bin/curl", cgroup: "/", netns: 1, sockets: []int{999}}, host4, host6)
	// Its own namespace, and a socket that systemd opened in the host's.
	f.add(fakeProcess{pid: 40, exe: "/app/server", cgroup: "/system.slice/docker-" + id + ".scope", netns: 2, sockets: []int{400}, maps: "7f00-7f01 r-xp 0 08:01 1 /opt/jdk/lib/server/libjvm.so\n"}, "", "")
	f.add(fakeProcess{pid: 50, exe: "/usr/bin/redis-server", cgroup: "/system.slice/redis.service", netns: 3, sockets: []int{500}}, row(80, 10, 500), "")
	if err := os.Mkdir(filepath.Join(f.root, "60"), 0o755); err != nil { // gone between two reads
		t.Fatal(err)
	}

	s := New(f.root, rules(t, "TARE_PORTS=shop=8080,80,9000-9010", "OTEL_RESOURCE_ATTRIBUTES=host.name=h,team=a"), nil)
	ps, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	got := byPID(ps)
	if len(got) != 5 {
		t.Errorf("selected %v", ps)
	}
	if st := s.Stats(); st.Processes != 6 || st.Selected != 5 || st.Denied != 0 {
		t.Errorf("stats %+v", st)
	}
	for pid, want := range map[int]struct {
		name    string
		linking config.Linking
		sockets []uint64
		listen  []uint16
		netns   uint32
	}{
		10: {"nginx", config.Loop, []uint64{7, 100}, []uint16{80}, 1},
		11: {"nginx", config.Loop, []uint64{100, 101}, []uint16{80}, 1},
		30: {"shop", config.Auto, []uint64{300}, []uint16{8080}, 1},
		40: {"server", config.Task, []uint64{400}, []uint16{9005}, 2},
		50: {"redis", config.Auto, []uint64{500}, []uint16{80}, 3},
	} {
		p := got[pid]
		if p.Service.Name != want.name || p.Service.Linking != want.linking || !reflect.DeepEqual(p.Sockets, want.sockets) ||
			!reflect.DeepEqual(p.Listening, want.listen) || p.NetNS != want.netns || p.StartTime != uint64(1000+pid) || p.Service.Why == "" {
			t.Errorf("%d: %+v", pid, p)
		}
		// One process alone must come out as in the scan, but for sockets of other namespaces.
		one, ok, err := inspect(s, pid)
		if pid != 40 && (!ok || err != nil || !reflect.DeepEqual(one, p)) {
			t.Errorf("inspecting %d: %+v %v %v", pid, one, ok, err)
		}
	}
	if !got[10].Service.Equal(got[11].Service) {
		t.Errorf("nginx and its worker differ: %+v, %+v", got[10].Service, got[11].Service)
	}
	if got[40].ContainerID != id || got[40].Unit != "" || got[10].Unit != "nginx" {
		t.Errorf("%+v", got[40])
	}
	r := got[40].Service.Resource()
	want := map[string]string{
		"host.name": "h", "team": "a", "container.id": id,
		"process.executable.name": "server", "process.executable.path": "/app/server",
	}
	for _, a := range r.Attrs {
		if want[a.Key] != a.Str {
			t.Errorf("attribute %s is %q", a.Key, a.Str)
		}
	}
	if r.Service != "server" || len(r.Attrs) != len(want) {
		t.Errorf("%+v", r)
	}
	for _, pid := range []int{20, 31, 60, 70} {
		if p, ok, err := inspect(s, pid); ok || err != nil {
			t.Errorf("inspecting %d: %+v %v", pid, p, err)
		}
	}
}

// A process that no rule selects is what its parent is, and its parent's parent, while
// they run the same executable.
func TestChildrenOfSelected(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	table := row(80, 10, 100) + row(81, 10, 200)
	f.add(fakeProcess{pid: 1, exe: "/usr/bin/node", netns: 1}, table, "")
	f.add(fakeProcess{pid: 10, parent: 1, exe: "/usr/bin/node", netns: 1, sockets: []int{100}}, table, "")
	f.add(fakeProcess{pid: 11, parent: 10, exe: "/usr/bin/node", netns: 1, sockets: []int{7}}, table, "")
	f.add(fakeProcess{pid: 12, parent: 11, exe: "/usr/bin/node", netns: 1}, table, "")
	f.add(fakeProcess{pid: 13, parent: 10, exe: "/usr/bin/curl", netns: 1}, table, "")
	f.add(fakeProcess{pid: 14, parent: 13, exe: "/usr/bin/node", netns: 1}, table, "")
	f.add(fakeProcess{pid: 15, parent: 10, exe: "/usr/bin/node", netns: 1, sockets: []int{200}}, table, "")
	f.add(fakeProcess{pid: 16, parent: 99, exe: "/usr/bin/node", netns: 1}, table, "")
	s := New(f.root, rules(t, "TARE_PORTS=shop=80,back=81"), nil)
	ps, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{10: "shop", 11: "shop", 12: "shop", 15: "back"}
	got := map[int]string{}
	for _, p := range ps {
		got[p.PID] = p.Service.Name
	}
	if !maps.Equal(got, want) {
		t.Errorf("selected %v, want %v", got, want)
	}
	for pid := range 20 {
		p, ok, err := inspect(s, pid)
		if ok != (want[pid] != "") || p.Service.Name != want[pid] || err != nil {
			t.Errorf("inspecting %d: %+v %v %v", pid, p, ok, err)
		}
	}
}

// A process that runs another executable while it is looked at is not taken for
// what it was.
func TestExecMeanwhile(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	f.add(fakeProcess{pid: 1, exe: "/usr/bin/sh", netns: 1, sockets: []int{100}}, row(80, 10, 100), "")
	s := New(f.root, rules(t, "TARE_PORTS=80"), nil)
	p, err := openProcess(f.root, 1)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(f.root, "1/exe")
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/sbin/nginx", exe); err != nil {
		t.Fatal(err)
	}
	found, ok, err := s.match(p, s.tables())
	if err != nil || !ok || found.Exe != "/usr/sbin/nginx" || found.Service.Linking != config.Loop {
		t.Errorf("%+v %v %v", found, ok, err)
	}
}

func TestRulesAndNames(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	f.add(fakeProcess{pid: 1, exe: "/usr/bin/ruby3.1", cgroup: "/system.slice/shop.service/x", netns: 1}, "", "")
	f.add(fakeProcess{pid: 2, exe: "/usr/bin/node", cgroup: "/system.slice/ssh.service", netns: 1}, "", "")

	s := New(f.root, rules(t, "TARE_CGROUPS=/system.slice/shop.service*", "TARE_EXES=front=*/node,never=*/ruby*", "TARE_LINKING=front=thread"), nil)
	ps, err := s.Scan()
	got := byPID(ps)
	if err != nil || len(got) != 2 {
		t.Fatal(ps, err)
	}
	// Rules of the environment come by kind: port, exe, cgroup.
	if got[1].Service.Name != "never" || got[2].Service.Name != "front" || got[2].Service.Linking != config.Thread || got[2].Service.Why != "configured" {
		t.Errorf("%+v", got)
	}
	ps, _ = New(f.root, rules(t, "TARE_CGROUPS=/*", "OTEL_SERVICE_NAME=all"), nil).Scan()
	if got = byPID(ps); got[1].Service.Name != "all" || got[2].Service.Name != "all" {
		t.Errorf("%+v", got)
	}
	ps, _ = New(f.root, rules(t, "TARE_CGROUPS=/*"), nil).Scan()
	if got = byPID(ps); got[1].Service.Name != "shop" || got[2].Service.Name != "node" || got[2].Service.Linking != config.Task {
		t.Errorf("%+v", got)
	}
	// What is said of all fills in where the runtime is not recognised.
	ps, _ = New(f.root, rules(t, "TARE_CGROUPS=/*", "TARE_LINKING=thread"), nil).Scan()
	if got = byPID(ps); got[1].Service.Linking != config.Thread || !strings.HasPrefix(got[1].Service.Why, "configured") ||
		got[2].Service.Linking != config.Task || !strings.HasPrefix(got[2].Service.Why, "Node.js") {
		t.Errorf("%+v", got)
	}
	if _, err := New(filepath.Join(f.root, "none"), rules(t, "TARE_CGROUPS=/*"), nil).Scan(); err == nil {
		t.Error("no /proc, no error")
	}
}

// Only a program in Go has goroutines, whatever is said of it; and if it is in Go
// and cannot be read, that is why.
func TestGoroutineOfWhatIsNotGo(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for pid, exe := range map[int]string{1: "/usr/bin/ruby3.1", 2: "/usr/sbin/nginx", 3: self} {
		f.add(fakeProcess{pid: pid, exe: exe, cgroup: "/x", netns: 1}, "", "")
	}
	ps, err := New(f.root, rules(t, "TARE_CGROUPS=all=/*", "TARE_LINKING=all=goroutine"), nil).Scan()
	if err != nil || len(ps) != 3 {
		t.Fatal(ps, err)
	}
	for _, p := range ps {
		want := "configured as goroutine, but it is not written in Go"
		if p.Exe == self {
			want = "Go: the executable or the process's memory cannot be read" // there is no process
		}
		if p.Service.Linking != config.None || p.Service.Why != want {
			t.Errorf("%s: %v, %q, want %q", p.Exe, p.Service.Linking, p.Service.Why, want)
		}
	}
}
