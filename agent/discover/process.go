package discover

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// process reads /proc/PID, each file at most once and only when it is asked
// for.
type process struct {
	dir string
	pid int
	exe string

	cgroups     *string // the file
	in          *string // what container returns
	status      *stat
	start       *string // what called returns
	name        *string // what program returns
	netnsInode  uint32
	inodes      []uint64 // sockets of any family
	inodesKnown bool
	rule        int // what Scanner.rule has found
	ruleErr     error
	ruled       bool
}

var (
	errKernelThread = errors.New("kernel thread")
	errMalformed    = errors.New("malformed /proc file")
)

// gone reports that the process vanished, or never had what was looked for.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, errKernelThread)
}

func openProcess(root string, pid int) (*process, error) {
	p := &process{pid: pid, dir: filepath.Join(root, strconv.Itoa(pid))}
	exe, err := os.Readlink(filepath.Join(p.dir, "exe"))
	if errors.Is(err, fs.ErrNotExist) || exe == "" && err == nil {
		return nil, errKernelThread // or a zombie, or gone
	}
	if err != nil {
		return nil, err
	}
	// The kernel marks executables that were replaced while they run.
	p.exe = strings.TrimSuffix(exe, " (deleted)")
	return p, nil
}

// stat is what /proc/PID/stat tells.
type stat struct {
	parent int
	start  uint64 // clock ticks after boot
}

func (p *process) stat() (stat, error) {
	if p.status == nil {
		text, err := readAtMost(filepath.Join(p.dir, "stat"), maxText)
		if err != nil {
			return stat{}, err
		}
		read, err := parseStat(text)
		if err != nil {
			return stat{}, err
		}
		p.status = &read
	}
	return *p.status, nil
}

// parseStat reads fields 4 and 22 of /proc/PID/stat. The second field is the
// command in parentheses, which may itself hold spaces and parentheses.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 20 {
		return stat{}, errMalformed
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return stat{}, errMalformed
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return stat{}, errMalformed
	}
	return stat{parent: parent, start: start}, nil
}

func (p *process) readCgroups() (string, error) {
	if p.cgroups == nil {
		read, err := readAtMost(filepath.Join(p.dir, "cgroup"), maxText)
		if err != nil {
			return "", err
		}
		text := string(read)
		p.cgroups = &text
	}
	return *p.cgroups, nil
}

// cgroup is the path in the cgroup v2 tree, as the host has it.
func (p *process) cgroup() (string, error) {
	text, err := p.readCgroups()
	return below(cgroupNamespace(), parseCgroup(text)), err
}

// container is the id of the container that the process runs in, "" if in none.
func (p *process) container() (string, error) {
	text, err := p.readCgroups()
	if err != nil {
		return "", err
	}
	if p.in == nil {
		in := containerOf(text)
		p.in = &in
	}
	return *p.in, nil
}

// args are the arguments, with the program's name before them; none if they cannot be read.
// They are not kept: they may be long, and there may be many processes.
func (p *process) args() []string {
	text, err := readAtMost(filepath.Join(p.dir, "cmdline"), maxArgs)
	if err != nil || len(text) == 0 {
		return nil
	}
	args := strings.SplitN(strings.TrimRight(string(text), "\x00"), "\x00", maxArg+1)
	return args[:min(len(args), maxArg)]
}

// What is read of a process.
const (
	// Bytes of the arguments, and how many: class paths are long, and stand before the name.
	maxArgs = 128 << 10
	maxArg  = 4096
	maxText = 64 << 10 // bytes of other files; the longest has a path of 4 KiB for each hierarchy of control groups
	// Descriptors that are looked at, and sockets that are kept: of a process; of a container, or of a
	// control group outside of any, with all of its processes; of all, since the last scan began.
	maxDescriptors    = 256 << 10
	maxSockets        = 32 << 10
	maxGroupSockets   = 64 << 10
	maxScanSockets    = 256 << 10
	fewSockets        = 64
	maxName           = 255 // bytes of what a program is called
	descriptorsAtOnce = 512
)

func readAtMost(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // what was read is read by then
	return io.ReadAll(io.LimitReader(f, n))
}

// called is the path of the executable with the name by which it was started, which a link
// may have ("redis-server" is a link to redis-check-rdb on Debian), and so may what the
// program says of itself ("nginx: worker process"); "" if there is none.
func (p *process) called() string {
	if p.start == nil {
		called := ""
		if args := p.args(); len(args) > 0 {
			name, _, _ := strings.Cut(args[0], " ")
			name = path.Base(strings.TrimSuffix(name, ":"))
			if name != "." && name != "/" && len(name) <= maxName {
				called = strings.Clone(path.Join(path.Dir(p.exe), name))
			}
		}
		p.start = &called
	}
	return *p.start
}

// linked reports whether a name of the process's own file system is another name of its
// executable.
func (p *process) linked(name string) bool {
	of, err := p.stat()
	if err != nil {
		return false
	}
	same, _ := reading.Do(reading.ID{PID: p.pid, StartTime: of.start}, "", func(*reading.Account) (bool, error) {
		return reading.SameFile(p.dir, name, filepath.Join(p.dir, "exe")), nil
	})
	return same
}

func (p *process) netns() (uint32, error) {
	if p.netnsInode == 0 {
		link, err := os.Readlink(filepath.Join(p.dir, "ns/net"))
		if err != nil {
			return 0, err
		}
		inode, ok := bracketed(link, "net:")
		if !ok || inode>>32 != 0 {
			return 0, errMalformed
		}
		p.netnsInode = uint32(inode)
	}
	return p.netnsInode, nil
}

// exists reports whether the process is still there.
func (p *process) exists() bool {
	_, err := os.Stat(p.dir)
	return err == nil
}

// sockets returns the inodes of the process's sockets and the TCP ports that it
// listens on. Without any socket, no table is read: this keeps Inspect cheap for
// the many short processes of a shell script.
func (p *process) sockets(t *tables) (inodes []uint64, listening []uint16, err error) {
	if !p.inodesKnown {
		if p.inodes, err = socketInodes(filepath.Join(p.dir, "fd")); err != nil {
			return nil, nil, err
		}
		if p.inodes, err = t.share.take(p, p.inodes); err != nil {
			return nil, nil, err
		}
		p.inodesKnown = true
	}
	if len(p.inodes) == 0 {
		return nil, nil, nil
	}
	if err := t.read(p); err != nil {
		return nil, nil, err
	}
	for _, inode := range p.inodes {
		if port, ok := t.ports[inode]; ok {
			listening = append(listening, port)
		}
	}
	slices.Sort(listening)
	return p.inodes, slices.Compact(listening), nil
}

// share is how many sockets are kept, so that one container does not take the room of all.
type share struct {
	all    int
	groups map[string]int
	of     map[int]held // processes, by their ids
}

type held struct {
	group string
	n     int
}

// take is what a process keeps of its sockets, instead of those that it had.
func (s *share) take(p *process, inodes []uint64) ([]uint64, error) {
	if s.of == nil {
		s.groups, s.of = map[string]int{}, map[int]held{}
	}
	now, room := held{n: len(inodes)}, maxSockets
	if now.n > fewSockets { // else it takes nobody's room
		var err error
		if now.group, err = p.container(); err != nil {
			return nil, err
		}
		if now.group == "" {
			now.group = *p.cgroups
		}
		room = maxGroupSockets - s.groups[now.group]
	}
	had := s.of[p.pid]
	if had.group == now.group {
		room += had.n
	}
	if room = max(min(room, maxSockets, maxScanSockets-s.all+had.n), 0); now.n > room {
		reading.Count(reading.Shape)
		inodes, now.n = slices.Clone(inodes[:room]), room
	}
	s.groups[had.group] -= had.n
	s.groups[now.group] += now.n
	s.all += now.n - had.n
	s.of[p.pid] = now
	return inodes, nil
}

// socketInodes are the sockets to which the links of a directory of descriptors lead, sorted; at
// most maxSockets.
func socketInodes(dir string) ([]uint64, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	var inodes []uint64
	var buf [64]byte // a longer link is no socket
	for looked := 0; ; {
		names, err := f.Readdirnames(descriptorsAtOnce)
		for _, name := range names {
			n, err := unix.Readlinkat(int(f.Fd()), name, buf[:])
			if err != nil {
				continue // closed in the meantime
			}
			if inode, ok := bracketed(string(buf[:n]), "socket:"); ok {
				inodes = append(inodes, inode)
			}
		}
		if len(inodes) > maxSockets { // of a socket with many descriptors, one is kept
			slices.Sort(inodes)
			inodes = slices.Compact(inodes)
		}
		looked += len(names)
		if len(inodes) > maxSockets || looked >= maxDescriptors {
			reading.Count(reading.Shape)
			inodes = inodes[:min(len(inodes), maxSockets)]
			break
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(inodes)
	return slices.Clip(slices.Compact(inodes)), nil
}

// bracketed reads the number of links such as "socket:[123]".
func bracketed(link, prefix string) (uint64, bool) {
	rest, ok := strings.CutPrefix(link, prefix+"[")
	if !ok {
		return 0, false
	}
	digits, ok := strings.CutSuffix(rest, "]")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}
