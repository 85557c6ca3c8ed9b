package jvm

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/native/nativetest"
	"github.com/tare-trace/tare/agent/runtime/reading"
	"github.com/tare-trace/tare/agent/runtime/reading/readingtest"
)

// javas are the JVMs here; those of an image without a compiler run what another's
// compiled.
func javas(t testing.TB) []string {
	return nativetest.Programs(t, "TARE_TEST_JAVA", "/usr/lib/jvm/*-amd64/bin/java")
}

// compile compiles the test's program for the oldest JVM.
func compile(t testing.TB) (dir string) {
	dir = t.TempDir()
	for _, java := range javas(t) {
		javac := filepath.Join(filepath.Dir(java), "javac")
		if out, err := exec.Command(javac, "--release", "11", "-d", dir, "testdata/Threads.java").CombinedOutput(); err == nil {
			return dir
		} else if _, missing := os.Stat(javac); missing == nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Skip("needs javac")
	return ""
}

// start runs the program with n virtual and n other threads that wait for input,
// and returns their ids. It skips a JVM without the option.
func start(t *testing.T, java, classes string, option string, args ...string) (dir string, virtual, platform []uint64) {
	t.Helper()
	if out, err := exec.Command(java, option, "-version").CombinedOutput(); err != nil {
		t.Skipf("%s", out)
	}
	dir, lines := nativetest.Run(t, java, append([]string{option, "-Xmx48m", "-cp", classes, "Threads"}, args...)...)
	for _, line := range lines {
		var kind string
		var id uint64
		if _, err := fmt.Sscan(line, &kind, &id); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if kind == "virtual" {
			virtual = append(virtual, id)
		} else {
			platform = append(platform, id)
		}
	}
	time.Sleep(100 * time.Millisecond) // until they all wait
	return dir, virtual, platform
}

// running is who runs on each thread, by the layout: as the kernel side would do
// it, and nothing where a collection is seen.
func running(l *Layout, source io.ReaderAt, threads []native.Owner) (virtual, platform []uint64, unsure int) {
	for _, thread := range threads {
		m := native.NewMemory(source, reading.New())
		h := l.Handle
		state := func() uint64 {
			m.Forget()
			return uint64(m.Byte(h.Active))<<32 | uint64(m.Half(h.Collections))
		}
		switch t := l.Thread.Follow(m, thread.Thread); {
		case t == 0: // it has ended
		case l.Identity == ByOwner && m.Word(t+uint64(l.Entry)) != 0:
			virtual = append(virtual, m.Word(t+uint64(l.OwnerID)))
		case l.Identity == ByOwner:
			platform = append(platform, m.Word(t+uint64(l.OwnerID)))
		default:
			before := state()
			m.Forget()
			own, object := native.Path{h.ThreadObj, 0}.Follow(m, t), native.Path{h.VThread, 0}.Follow(m, t)
			id := m.Word(object + uint64(h.TID))
			if state() != before || before>>32 != 0 {
				unsure++
			} else if own == object || object == 0 {
				platform = append(platform, id)
			} else {
				virtual = append(virtual, id)
			}
		}
	}
	return virtual, platform, unsure
}

// threads are the JVM's, by its own list.
func threads(t *testing.T, dir string) (*structs, *native.LibC, *native.Module, []native.Owner) {
	t.Helper()
	p, err := native.Open(dir, reading.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	module, err := p.Library("libjvm.so")
	if err != nil {
		t.Fatal(err)
	}
	s, err := readStructs(p.Memory, module.Address)
	if err != nil {
		t.Fatal(err)
	}
	libc, err := p.LibC()
	if err != nil {
		t.Fatal(err)
	}
	owners, err := s.threads()
	if err != nil || len(owners) < minThreads {
		t.Fatal(owners, err)
	}
	return s, libc, module, owners
}

func contains(t *testing.T, what string, ids, all []uint64) {
	t.Helper()
	for _, id := range ids {
		if !slices.Contains(all, id) {
			t.Errorf("%d is no %s thread's id: %d", id, what, all)
		}
	}
}

// Who runs on a thread is who the JVM says, under every collector, while others
// sleep, and while objects move.
func TestThreads(t *testing.T) {
	classes := compile(t)
	for _, java := range javas(t) {
		for _, gc := range []string{"G1", "Parallel", "Serial", "Z", "Shenandoah"} {
			t.Run(strings.ReplaceAll(java, "/", " ")+" "+gc, func(t *testing.T) {
				dir, virtual, platform := start(t, java, classes, "-XX:+Use"+gc+"GC")
				l, err := Read(dir, reading.New())
				if err != nil && len(virtual) > 0 && (gc == "Z" || gc == "Shenandoah") && strings.HasPrefix(err.Error(), "before JDK 24") {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%+v", *l)
				if (l.Identity == NoVirtualThreads) != (len(virtual) == 0) {
					t.Fatalf("%+v, but virtual threads %d", *l, virtual)
				}
				if l.Identity == NoVirtualThreads {
					return
				}
				_, _, _, owners := threads(t, dir)
				gotVirtual, gotPlatform, _ := running(l, nativetest.Memory(t, dir), owners)
				slices.Sort(gotVirtual)
				slices.Sort(virtual)
				if !slices.Equal(gotVirtual, virtual) {
					t.Errorf("virtual threads %d are mounted, want %d", gotVirtual, virtual)
				}
				contains(t, "running platform", platform, gotPlatform)
				for _, id := range gotPlatform {
					if slices.Contains(virtual, id) {
						t.Errorf("%d is virtual", id)
					}
				}

				dir, virtual, _ = start(t, java, classes, "-XX:+Use"+gc+"GC", "collect")
				if l, err = Read(dir, reading.New()); err != nil {
					t.Fatal(err)
				}
				_, _, _, owners = threads(t, dir)
				memory := nativetest.Memory(t, dir)
				sure, unsure := map[uint64]int{}, 0
				for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; {
					v, _, u := running(l, memory, owners)
					contains(t, "virtual", v, virtual)
					for _, id := range v {
						sure[id]++
					}
					unsure += u
				}
				t.Logf("while objects move: %v, and %d reads of nothing", sure, unsure)
				if len(sure) != len(virtual) {
					t.Errorf("seen %v of %d", slices.Collect(maps.Keys(sure)), virtual)
				}
			})
		}
	}
}

// The pthread key is found in JVMs without virtual threads too, and one whose
// memory lies is read as it is, or refused.
func TestKey(t *testing.T) {
	classes := compile(t)
	for _, java := range javas(t) {
		t.Run(strings.ReplaceAll(java, "/", " "), func(t *testing.T) { testKey(t, java, classes) })
	}
}

func testKey(t *testing.T, java, classes string) {
	dir, _, _ := start(t, java, classes, "-XX:+UseSerialGC")
	s, libc, module, owners := threads(t, dir)
	path, err := libc.KeyPath(s.Memory, owners)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if path.Follow(s.Memory, o.Thread) != o.Value {
			t.Errorf("%+v by %v", o, path)
		}
	}

	whole, err := s.layout(libc, module.Address)
	if err != nil {
		t.Fatal(err)
	}
	memory := nativetest.Memory(t, dir)
	for _, rate := range []float64{0, 1e-6, 1e-4, 1e-2, 1} {
		same, refused := 0, 0
		for seed := range uint64(10) {
			torn := &nativetest.Torn{Source: memory, Random: rand.New(rand.NewPCG(seed, 0)), Rate: rate}
			s, err := readStructs(native.NewMemory(torn, reading.New()), module.Address)
			var l *Layout
			if err == nil {
				l, err = s.layout(libc, module.Address)
			}
			if err != nil {
				refused++
			} else if reflect.DeepEqual(l, whole) {
				same++
			} else {
				t.Logf("%g of words changed: %+v", rate, *l)
			}
			if torn.Reads > 1<<14 {
				t.Errorf("%d reads", torn.Reads)
			}
		}
		t.Logf("%g of words changed: %d whole, %d refused", rate, same, refused)
		if rate == 0 && same != 10 || rate == 1 && refused != 10 {
			t.Errorf("%g of words changed: %d whole, %d refused", rate, same, refused)
		}
	}
}

// No process, no JVM.
func TestRefused(t *testing.T) {
	javas(t) // or the architecture is another
	if l, err := Read("/proc/self", reading.New()); err == nil || err.Error() != "no libjvm.so" {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := Read("/proc/0", reading.New()); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// FuzzStructs gives the decoder tables of arbitrary content.
func FuzzStructs(f *testing.F) {
	const at = nativetest.Base
	f.Add(uint64(1), []byte("JavaThread\x00_vthread\x00"))
	f.Fuzz(func(t *testing.T, seed uint64, b []byte) {
		r := rand.New(rand.NewPCG(seed, 0))
		known := map[string]uint64{}
		address := func(name string) uint64 {
			if _, ok := known[name]; !ok {
				known[name] = at + r.Uint64()%64
			}
			return known[name]
		}
		readingtest.Live(t, func() {
			for _, source := range nativetest.Sources(b) {
				s, err := readStructs(native.NewMemory(source, reading.New()), address)
				if err != nil {
					continue
				}
				libc := &native.LibC{Specific: 16, KeyData: 8, KeySize: 16, Block: 512, TID: 8, DTVP: 8, DTVSize: 16}
				for _, name := range []string{"JavaThread::_vthread", "JavaThread::_threadObj", "Thread::_osthread", "JVMFlag::flags", "JVMFlag::numFlags",
					"JVMFlag::_name", "JVMFlag::_addr", "ThreadsSMRSupport::_java_thread_list", "ThreadsList::_length", "ThreadsList::_threads",
					"OSThread::_thread_id", "OSThread::_pthread_id", "Abstract_VM_Version::_s_vm_release", "Universe::_collectedHeap",
					"CollectedHeap::_is_gc_active", "CollectedHeap::_total_collections", "OopHandle::_obj", "JavaThread::_monitor_owner_id", "JavaThread::_cont_entry"} {
					if r.IntN(4) > 0 {
						s.fields[name] = []uint64{0, 8, 16, at, at + 8, r.Uint64() >> r.IntN(64)}[r.IntN(6)]
					}
				}
				s.sizes["JVMFlag"] = 24
				if l, err := s.layout(libc, address); (l == nil) == (err == nil) {
					t.Errorf("%+v and %v", l, err)
				}
			}
		})
	})
}
