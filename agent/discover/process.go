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
)

// process reads /proc/PID, each file at most once and only when it is asked
// for.
type process struct {
	dir string
	pid int
	exe string

	cgroups     *string // the file
	status      *stat
	argv        []string
	argvKnown   bool
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
		text, err := os.ReadFile(filepath.Join(p.dir, "stat"))
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
		read, err := os.ReadFile(filepath.Join(p.dir, "cgroup"))
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
	return containerOf(text), err
}

// args are the arguments, with the program's name before them; none if they cannot be read.
func (p *process) args() []string {
	if !p.argvKnown {
		p.argvKnown = true
		if text, err := readAtMost(filepath.Join(p.dir, "cmdline"), maxArgs); err == nil && len(text) > 0 {
			p.argv = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		}
	}
	return p.argv
}

// maxArgs bounds what is read of the arguments: class paths are long, and stand before the name.
const maxArgs = 128 << 10

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
	args := p.args()
	if len(args) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(args[0], " ")
	name = path.Base(strings.TrimSuffix(name, ":"))
	if name == "." || name == "/" {
		return ""
	}
	return path.Join(path.Dir(p.exe), name)
}

// linked reports whether a name of the process's own file system is another name of its
// executable.
func (p *process) linked(name string) bool {
	exe, err := os.Stat(filepath.Join(p.dir, "exe"))
	if err != nil {
		return false
	}
	other, err := os.Stat(filepath.Join(p.dir, "root", name))
	return err == nil && os.SameFile(exe, other)
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
		slices.Sort(p.inodes)
		p.inodes = slices.Compact(p.inodes)
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

// socketInodes reads the links of a directory of descriptors.
func socketInodes(dir string) ([]uint64, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var inodes []uint64
	var buf [64]byte // a longer link is no socket
	for _, name := range names {
		n, err := unix.Readlinkat(int(f.Fd()), name, buf[:])
		if err != nil {
			continue // closed in the meantime
		}
		if inode, ok := bracketed(string(buf[:n]), "socket:"); ok {
			inodes = append(inodes, inode)
		}
	}
	return inodes, nil
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
