// Package discover finds the processes that the configuration's rules select,
// by reading /proc: which process listens where, runs what, and belongs to
// which cgroup. It also says how each is named, and how its receives may be
// linked to its sends.
//
// It only reads. It keeps nothing between scans but what it learnt of runtimes
// (package runtime), does not watch (the kernel side reports exec and listen; the
// caller then asks Inspect), and leaves to the kernel what can only be seen on
// a socket. A process that vanishes while it is looked at is no error.
//
// Cost: a few µs per process and file descriptor, and a tenth of a ms for each
// network namespace whose listeners are asked for.
package discover

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime"
	"github.com/tare-trace/tare/agent/tier"
	"github.com/tare-trace/tare/span"
)

// Process is a process that a rule selects.
type Process struct {
	PID         int
	StartTime   uint64 // clock ticks after boot; with PID, unique until reboot
	Exe         string // path as the process sees it
	Cgroup      string // path in the cgroup v2 tree, "" without one
	Unit        string // systemd unit without its suffix, "" outside of one
	ContainerID string
	NetNS       uint32 // inode number of its network namespace
	Service     Service
	Rule        int              // index of the rule that selects it
	Sockets     []uint64         // inodes of its sockets, of any family, sorted
	Listening   []uint16         // TCP ports that it listens on, sorted
	Needs       []tier.Demand    // what hooks its open sockets needed at the last scan
	Turns       bool             // an event loop that may receive something that is not TCP's, by the same; of Scan only
	Runtime     *runtime.Runtime // nil if a rule says how it is linked

	parent int              // its process
	run    *runtime.Process // as the runtime sees it
}

// Attach tells the kernel side what the process's runtime has to tell of it
// besides its linking.
func (p *Process) Attach(m runtime.Maps) error {
	if p.Runtime == nil || p.Runtime.Attach == nil {
		return nil
	}
	return p.Runtime.Attach(p.run, m)
}

// Look tells what the kernel side asks for.
func (p *Process) Look(m runtime.Maps) error {
	if p.Runtime == nil || p.Runtime.Look == nil {
		return nil
	}
	return p.Runtime.Look(p.run, m)
}

// LookForShim tells the kernel side of a shim that was loaded meanwhile.
func (p *Process) LookForShim(m runtime.Maps) error {
	if p.Runtime == nil || p.Runtime.LookForShim == nil {
		return nil
	}
	return p.Runtime.LookForShim(p.run, m)
}

// FaultIn brings into memory what the kernel side could not read of its tables.
func (p *Process) FaultIn(code uint32) error {
	if p.Runtime == nil || p.Runtime.FaultIn == nil {
		return nil
	}
	return p.Runtime.FaultIn(p.run, code)
}

// LookPublished tells where an SDK in the process publishes which span is current.
func (p *Process) LookPublished(m runtime.Maps) (found bool, err error) {
	if p.run == nil {
		return false, nil
	}
	return runtime.LookPublished(p.run, m)
}

// Demand is what hooks have to be attached for while the process is traced; "": nothing.
func (p *Process) Demand() tier.Demand {
	if p.Runtime == nil {
		return ""
	}
	return p.Runtime.Demand
}

// Detach takes back what was told of it.
func (p *Process) Detach(m runtime.Maps) error {
	err := runtime.DetachPublished(p.PID, m)
	if p.Runtime == nil || p.Runtime.Detach == nil {
		return err
	}
	return errors.Join(err, p.Runtime.Detach(p.PID, m))
}

// Service is what spans of a process are attributed to. Processes of one
// service (nginx and its workers) have equal Services if they run in the same
// container: container.id is among the attributes, process.pid is not.
type Service struct {
	Name    string
	Linking config.Linking
	Why     string // reason for Linking
	// Correlation are the headers by which calls are linked that nothing else links.
	Correlation []string
	Published   config.Published
	Attrs       []span.Attr // resource attributes without service.name, sorted by key
}

// Key is equal for equal services.
func (s Service) Key() string {
	b := append([]byte(s.Name), 0, byte(s.Linking), byte(s.Published))
	b = append(b, strings.Join(s.Correlation, ",")+"\x00"...)
	for _, a := range s.Attrs {
		b = append(b, a.Key+"\x00"+a.Text()+"\x00"...)
	}
	return string(b)
}

// Equal reports whether both are the same service, treated in the same way.
func (s Service) Equal(o Service) bool {
	return s.Name == o.Name && s.Linking == o.Linking && s.Published == o.Published &&
		slices.Equal(s.Correlation, o.Correlation) && slices.Equal(s.Attrs, o.Attrs)
}

// Resource is the service as spans refer to it.
func (s Service) Resource() *span.Resource {
	return &span.Resource{Service: s.Name, Attrs: s.Attrs}
}

// Stats tells what the last scan did and could not do.
type Stats struct {
	Processes int // looked at, kernel threads left out
	Denied    int // of them: not readable with the agent's privileges
	Selected  int
	Duration  time.Duration
}

// Scanner looks for processes. It may be used by several goroutines.
type Scanner struct {
	root     string
	config   config.Config
	cluster  cluster.Source // nil: none
	hostname string

	mu       sync.Mutex
	runtimes runtime.Detector
	diag     bool                   // the kernel answers sock_diag, as far as is known since the last scan
	ports    map[uint64]uint16      // of listening sockets by inode, of all namespaces at the last scan
	needs    map[uint64]tier.Demand // of unix stream sockets that listened and UDP sockets connected to servers of names, likewise
	others   map[uint64]other       // UDP and unix sockets, likewise; nil: they could not be listed
	share    share                  // of the sockets that were kept since the last scan began
	stats    Stats
}

// New makes a scanner for the rules of c. proc is where the proc file system
// is mounted, "" for /proc; in is the cluster that this host is a node of, nil for none.
func New(proc string, c config.Config, in cluster.Source) *Scanner {
	hostname, _ := os.Hostname() // without it, host.name is left out
	s := &Scanner{root: cmp.Or(proc, "/proc"), config: c, cluster: in, hostname: hostname, ports: map[uint64]uint16{}, needs: map[uint64]tier.Demand{}}
	s.diag = s.root == "/proc"
	return s
}

func (s *Scanner) tables() *tables {
	return &tables{root: s.root, diag: &s.diag, done: map[uint32]error{}, ports: s.ports, processes: map[int]*process{}, share: &s.share}
}

// Listens reports whether a socket was listening when its network namespace was
// looked at last, whoever holds it.
func (s *Scanner) Listens(inode uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ports[inode]
	return ok
}

// Stats tells of the last Scan.
func (s *Scanner) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Scan looks at every process and returns those that are selected, by PID.
// The error says that /proc itself cannot be listed.
func (s *Scanner) Scan() ([]Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := time.Now()
	dir, err := os.Open(s.root)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close() // only read from
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}

	var stats Stats
	clear(s.ports)
	clear(s.needs)
	s.share = share{}
	s.diag = s.root == "/proc" // once more, if it failed: that may have passed
	t := s.tables()
	t.needs, t.others = s.needs, map[uint64]other{}
	var all []*process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := openProcess(s.root, pid)
		switch {
		case err == nil:
			all = append(all, p)
			stats.Processes++
		case errors.Is(err, fs.ErrPermission):
			stats.Processes++
			stats.Denied++
		}
	}
	slices.SortFunc(all, func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
	// All namespaces before any match: systemd hands sockets of the host's
	// namespace to services that have their own.
	for _, p := range all {
		t.processes[p.pid] = p
		_ = t.read(p) // an error comes again from match, if the process matters
	}

	var selected []Process
	s.runtimes.Next()
	for _, p := range all {
		switch found, ok, err := s.match(p, t); {
		case ok:
			selected = append(selected, found)
		case errors.Is(err, fs.ErrPermission):
			stats.Denied++
		}
	}
	s.others = t.others
	s.turns(selected)
	stats.Selected = len(selected)
	stats.Duration = time.Since(start)
	s.stats = stats
	return selected, nil
}

// Inspect looks at single processes, for instance at those that have just begun
// to run another executable or to listen, and then calls each once for every one;
// each may use the Scanner. ok is false if no rule selects it, or if it is gone; the
// error says that it could not be looked at.
func (s *Scanner) Inspect(pids []int, each func(pid int, found Process, ok bool, err error)) {
	for i, l := range s.inspect(pids) {
		each(pids[i], l.found, l.ok, l.err)
	}
}

type inspected struct {
	found Process
	ok    bool
	err   error
}

func (s *Scanner) inspect(pids []int) []inspected {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables()
	all := make([]inspected, len(pids))
	for i, pid := range pids {
		l := &all[i]
		p, err := openProcess(s.root, pid)
		if err == nil {
			l.found, l.ok, err = s.match(p, t)
		}
		if !gone(err) {
			l.err = err
		}
	}
	return all
}

// match finds the first rule that selects the process, and completes what is
// known of it.
func (s *Scanner) match(p *process, t *tables) (Process, bool, error) {
	for {
		found, ok, err := s.matchOnce(p, t)
		if !ok {
			return found, ok, err
		}
		// Sockets are looked at after the executable, in a scan long after: by then
		// it may run another, which must not be taken for the first.
		now, err := openProcess(s.root, p.pid)
		if err != nil {
			return Process{}, false, err
		}
		if now.exe == p.exe {
			return found, true, nil
		}
		p = now
	}
}

func (s *Scanner) matchOnce(p *process, t *tables) (Process, bool, error) {
	i, by, err := s.selected(p, t)
	if i < 0 || err != nil {
		return Process{}, false, err
	}
	r := &s.config.Services[i]
	of, err := p.stat()
	if err != nil {
		return Process{}, false, err
	}
	cgroup, err := p.cgroup()
	if err != nil {
		return Process{}, false, err
	}
	sockets, listening, err := p.sockets(t)
	if err != nil {
		return Process{}, false, err
	}
	netns, err := p.netns()
	if err != nil {
		return Process{}, false, err
	}
	unit := unitOf(cgroup)
	container, err := p.container()
	if err != nil {
		return Process{}, false, err
	}
	in, name := s.containerIn(container), ""
	if in != nil {
		name = in.ServiceName()
	}
	linking, why := r.Linking, "configured"
	var on *runtime.Runtime
	run := &runtime.Process{PID: p.pid, StartTime: of.start, Exe: p.exe, Dir: p.dir, Group: cmp.Or(container, cgroup)}
	if linking == config.Auto || linking == config.Goroutine { // which needs what the runtime tells
		on = s.runtimes.Detect(run)
		linking, why = on.Linking, on.Why
	}
	if r.Linking == config.Goroutine && linking != config.Goroutine {
		linking = config.None
		if run.GoVersion() == "" {
			why = "configured as goroutine, but it is not written in Go"
		}
	}
	if linking == config.Auto && s.config.Linking != config.Auto {
		linking, why = s.config.Linking, "configured for what is not recognised"
	}
	return Process{
		Rule: i,
		PID:  p.pid, StartTime: of.start, Exe: p.exe, Cgroup: cgroup, Unit: unit, ContainerID: container,
		NetNS: netns, Sockets: sockets, Listening: listening, Runtime: on, parent: of.parent, run: run,
		Needs: s.needsOf(sockets),
		Service: Service{
			Name:    cmp.Or(r.Name, s.config.ServiceName, name, nameOfUnit(unit), by.program()),
			Linking: linking, Why: why, Published: r.Published, Correlation: s.config.CorrelationOf(r),
			Attrs: s.attributes(p.exe, container, in),
		},
	}, true, nil
}

// needsOf says what hooks sockets need, each once.
func (s *Scanner) needsOf(sockets []uint64) (all []tier.Demand) {
	for _, inode := range sockets {
		if d, ok := s.needs[inode]; ok && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// turns finds the event loops that may receive something that is not TCP's.
func (s *Scanner) turns(found []Process) {
	var holders map[uint64]int // of unix sockets without a name
	parents := map[int]bool{}
	for i := range found {
		parents[found[i].parent] = true
	}
	for i := range found {
		p := &found[i]
		if p.Service.Linking != config.Loop {
			continue
		}
		if p.Runtime == nil || !p.Runtime.Channels || s.others == nil {
			p.Turns = true
			continue
		}
		if holders == nil {
			holders = s.holders(found)
		}
		p.Turns = slices.ContainsFunc(p.Sockets, func(inode uint64) bool {
			kind, ok := s.others[inode]
			// A parent alone has its end of the channel to its only worker, and works for no requests.
			return ok && (kind == otherNamed || holders[inode] == 1 && !parents[p.PID])
		})
	}
}

// holders counts the processes that have each unix socket without a name.
func (s *Scanner) holders(found []Process) map[uint64]int {
	n := map[uint64]int{}
	for i := range found {
		for _, inode := range found[i].Sockets {
			if s.others[inode] == otherUnnamed {
				n[inode]++
			}
		}
	}
	return n
}

// maxAncestors bounds the parents of a process that are asked.
const maxAncestors = 8

// selected returns the index of the rule that selects a process, or -1, and the process
// that it matches. If no rule matches the process itself, it is one that matches its
// parent while both run the same executable: a worker may have no listener, and be given
// connections that its parent has accepted.
func (s *Scanner) selected(p *process, t *tables) (i int, by *process, err error) {
	i, err = s.rule(p, t)
	by = p
	for n := 0; i == noRule && err == nil && n < maxAncestors; n++ {
		var of stat
		if of, err = by.stat(); err != nil {
			break
		}
		if by = t.process(of.parent); by == nil || by.exe != p.exe {
			return noRule, nil, nil
		}
		i, err = s.rule(by, t)
	}
	return i, by, err
}

// What rule returns beside an index.
const (
	noRule   = -1
	declined = -2 // by its pod, whatever rules say
)

// rule returns the index of the first rule that matches. What is cheap to know is asked
// first.
func (s *Scanner) rule(p *process, t *tables) (int, error) {
	if !p.ruled {
		p.ruled = true
		p.rule, p.ruleErr = s.findRule(p, t)
	}
	return p.rule, p.ruleErr
}

func (s *Scanner) findRule(p *process, t *tables) (int, error) {
	var in *cluster.Container
	if s.cluster != nil {
		id, err := p.container()
		if err != nil {
			return noRule, err
		}
		if in = s.containerIn(id); in != nil && in.Pod.Declined() {
			return declined, nil
		}
	}
	for i := range s.config.Services {
		r := &s.config.Services[i]
		cgroup := ""
		if r.Cgroup != "" {
			var err error
			if cgroup, err = p.cgroup(); err != nil {
				return noRule, err
			}
		}
		if !r.WantsContainer(in) || !r.WantsCgroup(cgroup) || !r.WantsExecutable(p.exe) && !r.WantsExecutable(p.called()) {
			continue
		}
		if len(r.Ports) > 0 {
			_, listening, err := p.sockets(t)
			if err != nil {
				return noRule, err
			}
			if !r.WantsPort(listening) {
				continue
			}
		}
		return i, nil
	}
	return noRule, nil
}

// containerIn is what the cluster says of a container; nil if nothing.
func (s *Scanner) containerIn(id string) *cluster.Container {
	if s.cluster == nil || id == "" {
		return nil
	}
	return s.cluster.Container(id)
}

// attributes are the service's resource attributes by OpenTelemetry's
// semantic conventions; what the user configured wins over what was detected.
func (s *Scanner) attributes(exe, container string, in *cluster.Container) []span.Attr {
	values := map[string]string{
		"process.executable.name": path.Base(exe),
		"process.executable.path": exe,
	}
	if s.hostname != "" {
		values["host.name"] = s.hostname
	}
	if container != "" {
		values["container.id"] = container
	}
	if in != nil {
		maps.Copy(values, in.Attributes())
	}
	for k, v := range s.config.Resource {
		values[k] = v
	}
	attrs := make([]span.Attr, 0, len(values))
	for k, v := range values {
		attrs = append(attrs, span.String(k, v))
	}
	slices.SortFunc(attrs, func(a, b span.Attr) int { return cmp.Compare(a.Key, b.Key) })
	return attrs
}
