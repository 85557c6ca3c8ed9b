package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/agent/config"
)

func TestMain(m *testing.M) {
	if os.Getenv(goServerEnv) != "" {
		goServer() // this process is a program under test
		return
	}
	goleak.VerifyTestMain(m)
}

// process writes what /proc shows of one that has mapped these files.
func process(t *testing.T, exe string, mapped ...string) *Process {
	t.Helper()
	dir := t.TempDir()
	var text strings.Builder
	for i, path := range mapped {
		fmt.Fprintf(&text, "7f%02x-7fff r-xp 0 08:01 1 %s\n", i, path)
	}
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Process{PID: 7, StartTime: 1, Exe: exe, Dir: dir}
}

func TestDetect(t *testing.T) {
	goBinary := process(t, "/srv/api")
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(goBinary.Dir, "exe")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[*Process]struct {
		name    string
		linking config.Linking
	}{
		process(t, "/usr/sbin/nginx", "/usr/lib/libnode.so"):                            {"nginx", config.Loop},
		process(t, "/usr/sbin/haproxy"):                                                 {"haproxy", config.Queue},
		process(t, "/usr/bin/node"):                                                     {"Node.js", config.Task},
		process(t, "/opt/app", "/lib/libc.so.6", "", "/x/libjvm.so", "/x/libnode.so"):   {"JVM", config.Task},
		process(t, "/opt/app", "/lib/libc.so.6", "[stack]", "/usr/share/libcoreclr.so"): {".NET", config.None},
		process(t, "/usr/bin/python3.11", "/lib/libc.so.6"):                             {"Python", config.Task},
		process(t, "/usr/bin/uwsgi-core", "/lib/libc.so.6", "/x/libpython3.11.so.1.0"):  {"Python", config.Task},
		process(t, "/usr/bin/ruby3.1", "/lib/libc.so.6", "/x/notlibjvm.so"):             {"Ruby", config.Auto},
		process(t, "/opt/app", "/usr/lib/libruby-3.1.so.3.1", "/x/notlibjvm.so"):        {"Ruby", config.Auto},
		process(t, "/opt/rubyless", "/lib/libc.so.6", "/x/notlibjvm.so"):                {"unknown", config.Auto},
		goBinary: {"Go", config.None},
	} {
		r := new(Detector).Detect(name)
		if r.Name != want.name || r.Linking != want.linking || r.Why == "" {
			t.Errorf("%s: %+v", name.Exe, r)
		}
	}
	if v := goBinary.GoVersion(); !strings.HasPrefix(v, "go1.") {
		t.Errorf("built by %q", v)
	}
}

func TestEveryRuntimeIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, r := range registry {
		if r.Name == "" || names[r.Name] || r.Why == "" || r.Linking == config.Auto && r.Demand == "" {
			t.Errorf("%+v", r)
		}
		if len(r.Executables) == 0 && r.Detect == nil && len(r.Libraries) == 0 {
			t.Errorf("nothing is recognised as %s", r.Name)
		}
		if (r.Attach == nil && r.Look == nil) != (r.Detach == nil) {
			t.Errorf("%s tells something, or takes it back, and not both", r.Name)
		}
		names[r.Name] = true
	}
}

// What is mapped late is found, and what is settled is not read again and again.
func TestLibrariesThatComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Detector
		p := process(t, "/opt/app")
		jvm := filepath.Join(process(t, "", "/x/libjvm.so").Dir, "maps")
		expect := func(want string) {
			t.Helper()
			d.Next()
			if r := d.Detect(&Process{PID: p.PID, StartTime: p.StartTime, Exe: p.Exe, Dir: p.Dir}); r.Name != want {
				t.Errorf("%s, want %s", r.Name, want)
			}
		}
		expect("unknown")
		time.Sleep(young + time.Second)
		expect("unknown")
		if err := os.Rename(jvm, filepath.Join(p.Dir, "maps")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(again / 4)
		expect("unknown") // too soon
		time.Sleep(again)
		expect("JVM")
		if err := os.Remove(filepath.Join(p.Dir, "maps")); err != nil {
			t.Fatal(err)
		}
		p.StartTime++ // the pid is another process's now
		expect("unknown")
	})
}

func TestGenerationsForget(t *testing.T) {
	var g generations[int, int]
	g.put(1, 1)
	g.put(2, 2)
	for range 3 {
		g.next()
		if _, ok := g.get(1); !ok {
			t.Fatal("forgot what is asked for")
		}
	}
	if _, ok := g.get(2); ok {
		t.Error("remembers what nobody asks for")
	}
	for i := range 2*maxRemembered + 1 {
		g.put(i, i)
	}
	if n := len(g.current); n > maxRemembered {
		t.Errorf("remembers %d", n)
	}
}
