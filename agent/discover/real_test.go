package discover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"go.uber.org/goleak"
)

// TestMain turns into the child that listens, if told so.
func TestMain(m *testing.M) {
	if os.Getenv("TARE_TEST_LISTEN") != "" {
		listenAndWait()
		return
	}
	goleak.VerifyTestMain(m)
}

func listenAndWait() {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
}

// child starts a process that listens and returns its PID and port.
func child(t *testing.T, attr *syscall.SysProcAttr) (pid int, port string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TARE_TEST_LISTEN=1")
	cmd.SysProcAttr = attr
	c := nativetest.Start(t, cmd)
	c.Out.Scan()
	port = c.Out.Text()
	if _, err := strconv.Atoi(port); err != nil {
		t.Fatalf("child said %q: %v", port, c.Out.Err())
	}
	return c.PID, port
}

// needRoot skips without privileges, except where CI promises them.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must run this as root")
	}
	t.Skip("needs root: other network namespaces")
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestRealProcesses(t *testing.T) {
	pid, port := child(t, nil)
	s := New("", rules(t, "TARE_PORTS=child="+port), nil)
	ps, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := byPID(ps)[pid]
	if !ok || len(ps) != 1 {
		t.Fatalf("port %s: %+v, stats %+v", port, ps, s.Stats())
	}
	if p.Service.Name != "child" || p.Service.Linking != config.None || !strings.HasPrefix(p.Service.Why, "Go:") ||
		len(p.Sockets) == 0 || len(p.Listening) != 1 || p.StartTime == 0 || p.NetNS == 0 {
		t.Errorf("%+v", p)
	}
	before := descriptors(t)
	for range 20 {
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", s.Stats())
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if one, ok, err := inspect(s, pid); !ok || err != nil || one.StartTime != p.StartTime {
		t.Errorf("%+v %v %v", one, ok, err)
	}
	if _, ok, err := inspect(s, os.Getpid()); ok || err != nil {
		t.Errorf("self is selected: %v", err)
	}
	exe, _ := os.Readlink("/proc/self/exe")
	self, ok, err := inspect(New("", rules(t, "TARE_EXES="+exe), nil), os.Getpid())
	if !ok || err != nil || self.Exe != exe || self.Service.Linking != config.None {
		t.Errorf("%+v %v %v", self, ok, err)
	}
}

// Processes come and go while they are scanned.
func TestVanishing(t *testing.T) {
	s := New("", rules(t, "TARE_EXES=*", "TARE_PORTS=1-65535"), nil)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = exec.Command("true").Run()
			}
		}
	}()
	for range 30 {
		if _, err := s.Scan(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

func TestOtherNetworkNamespace(t *testing.T) {
	needRoot(t)
	pid, port := child(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET})
	ps, err := New("", rules(t, "TARE_PORTS="+port), nil).Scan()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := byPID(ps)[pid]
	if !ok {
		t.Fatalf("port %s: %+v", port, ps)
	}
	threads := func() string { s, _ := os.Readlink("/proc/thread-self/ns/net"); return s }
	runtime.LockOSThread()
	own := threads()
	runtime.UnlockOSThread()
	var inside string
	if err := InNetNS(pid, func() error { inside = threads(); return nil }); err != nil {
		t.Fatal(err)
	}
	if inside != fmt.Sprintf("net:[%d]", p.NetNS) || inside == own {
		t.Errorf("ran in %s, own is %s, wanted %d", inside, own, p.NetNS)
	}
	before := descriptors(t)
	failure := errors.New("failure")
	for range 50 {
		if err := InNetNS(pid, func() error { return failure }); !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if err := InNetNS(pid, func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a function that never returned succeeded")
	}
	if err := InNetNS(1<<30, func() error { return nil }); !gone(err) {
		t.Errorf("no such process: %v", err)
	}

	// An address that only the other namespace has.
	if err := InNetNS(pid, func() error { return exec.Command("ip", "addr", "add", "198.51.100.7/24", "dev", "lo").Run() }); err != nil {
		t.Skipf("ip: %v", err)
	}
	want := netip.MustParseAddr("198.51.100.7")
	if found, err := Addresses(pid); err != nil || !slices.Contains(found, want) {
		t.Errorf("%v, want %v among them; %v", found, want, err)
	}
	if found, err := Addresses(1 << 30); !Gone(err) || len(found) > 0 {
		t.Errorf("%v of no process; %v", found, err)
	}
}

func TestOwnAddresses(t *testing.T) {
	found, err := Addresses(0)
	if err != nil || !slices.Contains(found, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v %v", found, err)
	}
	if same, err := Addresses(os.Getpid()); err != nil || !slices.Equal(same, found) {
		t.Errorf("%v, but of this process %v; %v", found, same, err)
	}
}

// Both ways to find listeners find the same.
func TestListeners(t *testing.T) {
	_, port := child(t, nil)
	l6, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6:", err)
	}
	defer l6.Close()
	asked, read := map[uint64]uint16{}, map[uint64]uint16{}
	if err := diagListeners(func(inode uint64, port uint16) bool { asked[inode] = port; return true }); err != nil {
		t.Skip("no sock_diag:", err)
	}
	files := &tables{ports: read}
	for _, name := range []string{"tcp", "tcp6"} {
		if err := files.readFile("/proc/thread-self/net/"+name, files.parsePorts); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for inode, p := range asked {
		found[strconv.Itoa(int(p))] = true
		if q, ok := read[inode]; ok && p != q {
			t.Errorf("socket %d listens on %d, or on %d", inode, p, q)
		}
	}
	if !found[port] || !found[strconv.Itoa(l6.Addr().(*net.TCPAddr).Port)] {
		t.Errorf("%v without %s and %v", asked, port, l6.Addr())
	}
}

func FuzzDiag(f *testing.F) {
	f.Add(make([]byte, diagAnswerLength))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if inode, port := diagAnswer(msg); inode == 0 && port != 0 {
			t.Errorf("port %d of nobody's socket", port)
		}
	})
}

// A child of a child is found.
func TestChildren(t *testing.T) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		t.Skip("a kernel without CONFIG_PROC_CHILDREN")
	}
	cmd := exec.Command("sh", "-c", "sleep 100 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	line, _ := bufio.NewReader(out).ReadString('\n')
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	s := New("", rules(t, "TARE_EXES=*"), nil)
	if found := s.Children(os.Getpid()); !slices.Contains(found, cmd.Process.Pid) || !slices.Contains(found, grandchild) {
		t.Errorf("%v without %d and %d", found, cmd.Process.Pid, grandchild)
	}
}

func BenchmarkInspect(b *testing.B) {
	c, err := config.Load(nil, []string{"TARE_PORTS=80", "TARE_EXES=*/nginx"})
	if err != nil {
		b.Fatal(err)
	}
	s := New("", c, nil)
	for b.Loop() {
		s.Inspect([]int{os.Getpid()}, func(int, Process, bool, error) {})
	}
}

func BenchmarkScan(b *testing.B) {
	c, err := config.Load(nil, []string{"TARE_PORTS=80", "TARE_EXES=*/nginx"})
	if err != nil {
		b.Fatal(err)
	}
	s := New("", c, nil)
	for b.Loop() {
		if _, err := s.Scan(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.Stats().Processes), "processes")
}
