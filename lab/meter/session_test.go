package meter

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pidList is a group that changes.
type pidList struct {
	mu    sync.Mutex
	list  []int
	looks atomic.Int64
}

func (p *pidList) now() []int {
	p.looks.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.list...)
}

func (p *pidList) set(pids ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = pids
}

// looked waits until the session has looked for processes since it was called,
// and has finished a look.
func (p *pidList) looked(t *testing.T) {
	t.Helper()
	from := p.looks.Load()
	for begin := time.Now(); p.looks.Load() < from+3; time.Sleep(time.Millisecond) {
		require.LessOrEqual(t, time.Since(begin), time.Minute, "the session does not look for processes")
	}
}

func begin(t *testing.T, s Subjects) *Session {
	t.Helper()
	session, err := Begin(s)
	require.NoError(t, err)
	return session
}

func end(t *testing.T, s *Session) Usage {
	t.Helper()
	u, err := s.End()
	require.NoError(t, err)
	return u
}

func group1(pids func() []int) Subjects {
	return Subjects{Groups: map[string]func() []int{"it": pids}, Every: time.Millisecond}
}

func TestSessionIsExact(t *testing.T) {
	a, b := startSubject(t), startSubject(t)
	a.do("burn", 30) // before the window
	before := descriptors(t)

	fromA, fromB := cpuOf(t, a), cpuOf(t, b)
	s := begin(t, Subjects{Groups: map[string]func() []int{
		"a": func() []int { return []int{a.pid()} },
		"b": func() []int { return []int{b.pid()} },
	}, Every: 5 * time.Millisecond})
	innerA := cpuOf(t, a)
	a.do("burn", 100)
	innerA = cpuOf(t, a) - innerA
	u := end(t, s)
	outerA, outerB := cpuOf(t, a)-fromA, cpuOf(t, b)-fromB

	if got := u.Groups["a"].CPU; got < innerA || got > outerA || got < 100*time.Millisecond {
		t.Errorf("a used %v, between %v and %v", got, innerA, outerA)
	}
	if got := u.Groups["b"].CPU; got < 0 || got > outerB {
		t.Errorf("b used %v, at most %v", got, outerB)
	}
	for name, g := range u.Groups {
		if g.Processes != 1 || g.Vanished != 0 || g.Late != 0 {
			t.Errorf("%s: %+v", name, g)
		}
	}
	if u.Elapsed <= 0 || u.Machine.Elapsed != u.Elapsed || u.Machine.CPUs == 0 {
		t.Errorf("%+v", u)
	}
	if u.Meter <= 0 || u.Lab < u.Meter {
		t.Errorf("meter %v, laboratory %v", u.Meter, u.Lab)
	}
	if u.OutBytes != 0 || u.OutPackets != 0 {
		t.Errorf("bytes without a network: %+v", u)
	}
	assert.Equal(t, before, descriptors(t))
	if _, err := s.End(); err == nil {
		t.Error("ended twice")
	}
}

func TestSessionMemory(t *testing.T) {
	a := startSubject(t)
	a.do("hold", 64)
	s := begin(t, Subjects{Groups: map[string]func() []int{
		"one":  func() []int { return []int{a.pid()} },
		"both": func() []int { return []int{a.pid(), os.Getpid()} },
		"none": func() []int { return nil },
	}})
	u := end(t, s)
	one, both := u.Groups["one"], u.Groups["both"]
	if one.RSS < 60<<20 || one.RSS > 1<<30 || one.Peak < 60<<20 || one.PSS < 60<<20 || one.PSS > one.Peak {
		t.Errorf("%+v", one)
	}
	if both.RSS <= one.RSS || both.Peak <= one.Peak || both.Processes != 2 {
		t.Errorf("%+v, alone %+v", both, one)
	}
	assert.Equal(t, (GroupUsage{}), u.Groups["none"])
}

func TestSessionCountsWrites(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is in memory: nothing is written to storage; set TMPDIR to a directory on a disk", dir)
	}
	t.Setenv(subjectFile, filepath.Join(dir, "file"))
	a := startSubject(t)
	a.do("write", 1) // before the window
	s := begin(t, Subjects{Groups: map[string]func() []int{"it": func() []int { return []int{a.pid()} }}})
	a.do("write", 3)
	if it := end(t, s).Groups["it"]; !it.HasWritten || it.Written < 3<<20 || it.Written >= 4<<20 {
		t.Errorf("%+v", it)
	}
}

func TestSessionLooksOnlyAtBothEnds(t *testing.T) {
	var p pidList
	p.set(os.Getpid())
	s := begin(t, Subjects{Groups: map[string]func() []int{"it": p.now}})
	time.Sleep(20 * time.Millisecond)
	end(t, s)
	assert.EqualValues(t, 2, p.looks.Load(), "looks")
}

func TestProcessThatAppears(t *testing.T) {
	var p pidList
	s := begin(t, group1(p.now))
	a := startSubject(t)
	a.do("burn", 50) // before it is seen
	p.set(a.pid())
	p.looked(t)
	inner := cpuOf(t, a)
	u := end(t, s)
	if g := u.Groups["it"]; g.CPU < inner || g.CPU > cpuOf(t, a) || g.Processes != 1 || g.Late != 0 || g.Vanished != 0 {
		t.Errorf("%+v, at least %v", g, inner)
	}
}

func TestProcessThatAppearsAtTheEnd(t *testing.T) {
	var p pidList
	s := begin(t, Subjects{Groups: map[string]func() []int{"it": p.now}})
	a := startSubject(t)
	a.do("burn", 50)
	p.set(a.pid())
	if g := end(t, s).Groups["it"]; g.CPU < 50*time.Millisecond || g.Processes != 1 || g.Vanished != 0 {
		t.Errorf("%+v", g)
	}
}

func TestProcessThatIsNamedLate(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 0} {
		var p pidList
		a := startSubject(t)
		a.do("burn", 100) // also takes more than the start time's step of 10 ms
		s := begin(t, Subjects{Groups: map[string]func() []int{"it": p.now}, Every: every})
		p.set(a.pid())
		if every > 0 {
			p.looked(t)
			a.do("burn", 20)
		}
		g := end(t, s).Groups["it"]
		if g.Late != 1 || g.Vanished != 0 || g.CPU > cpuOf(t, a)-100*time.Millisecond || every > 0 && g.CPU < 20*time.Millisecond {
			t.Errorf("every %v: %+v", every, g)
		}
	}
}

func TestProcessThatVanishes(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 0} {
		var p pidList
		a, b := startSubject(t), startSubject(t)
		p.set(a.pid(), b.pid())
		s := begin(t, Subjects{Groups: map[string]func() []int{"it": p.now}, Every: every})
		a.do("burn", 50)
		a.wait()
		b.do("burn", 10)
		g := end(t, s).Groups["it"]
		if g.Vanished != 1 || g.Processes != 1 || g.CPU < 10*time.Millisecond || g.CPU >= 50*time.Millisecond && g.CPU > cpuOf(t, b) {
			t.Errorf("every %v: %+v", every, g)
		}
	}
}

// Nobody has waited for it yet: it has no memory any more, but its clock.
func TestProcessThatIsAZombie(t *testing.T) {
	var p pidList
	a := startSubject(t)
	p.set(a.pid())
	s := begin(t, group1(p.now))
	a.do("burn", 50)
	a.quit()
	p.looked(t)
	g := end(t, s).Groups["it"]
	if g.Vanished != 0 || g.CPU < 50*time.Millisecond || g.Processes != 0 {
		t.Errorf("%+v", g)
	}
}

// What a process did for its group counts, also after it has left it.
func TestProcessThatLeavesItsGroup(t *testing.T) {
	var p pidList
	a := startSubject(t)
	p.set(a.pid())
	s := begin(t, group1(p.now))
	p.set()
	p.looked(t)
	a.do("burn", 50)
	if g := end(t, s).Groups["it"]; g.CPU < 50*time.Millisecond || g.Processes != 1 {
		t.Errorf("%+v", g)
	}
}

func TestBeginRefuses(t *testing.T) {
	before := descriptors(t)
	for name, s := range map[string]Subjects{
		"negative period": {Every: -1},
		"no function":     {Groups: map[string]func() []int{"it": nil}},
		"no such link":    {Link: "nonesuch0"},
		"no name":         {Link: "../lo"},
	} {
		if session, err := Begin(s); err == nil {
			t.Errorf("%s: no error, %v", name, session)
		}
	}
	assert.Equal(t, before, descriptors(t))
}

func TestSamplingDoesNotAllocate(t *testing.T) {
	pids := []int{os.Getpid()}
	w := newWatch(Subjects{Groups: map[string]func() []int{"it": func() []int { return pids }}})
	defer w.close()
	require.NoError(t, w.begin())
	assert.EqualValues(t, 0, testing.AllocsPerRun(100, w.sample), "allocations per sample")
}
