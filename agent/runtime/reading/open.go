package reading

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLine is room for a path of 4096 bytes with a backslash and three digits for each.
const maxLine = 32 << 10

var errNotRegular = errors.New("not a regular file")

// Open opens a file of the proc file system's, or what one leads to, if it is a regular one:
// to open a device or a FIFO may do something, or wait.
func Open(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return regular(fd, name)
}

// OpenIn opens a regular file by its path in a process, whose directory in the proc file
// system is given: links lead nowhere out of the process's root.
func OpenIn(dir, name string) (*os.File, error) {
	fd, err := pathIn(dir, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir, "root", name), Err: err}
	}
	return regular(fd, name)
}

// SameFile reports whether a path in a process leads to the file that another name, of the
// proc file system's, leads to.
func SameFile(dir, name, other string) bool {
	fd, err := pathIn(dir, name)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Stat(other, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// pathIn is a descriptor that reads nothing, and knows where a path in a process leads.
func pathIn(dir, name string) (int, error) {
	root, err := unix.Open(filepath.Join(dir, "root"), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, strings.TrimLeft(name, "/"), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.6, or in a filter that does not know it: what is found is compared with what is mapped, or only looked at
		fd, err = unix.Open(filepath.Join(dir, "root", name), unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

func regular(fd int, name string) (*os.File, error) {
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// Lines yields the lines of a text that the kernel writes, without holding more than one;
// those longer than maxLine are left out. It ends early where the account does, and returns
// what ended it, nil at the text's end.
func (a *Account) Lines(r io.Reader, yield func(line []byte) bool) error {
	buf := make([]byte, maxLine)
	have, skip := 0, false // bytes of an unfinished line; the rest of a line that is too long
	for {
		if !a.Read(len(buf) - have) {
			return a.Err()
		}
		n, err := r.Read(buf[have:])
		a.bytes += int64(len(buf) - have - n)
		have += n
		rest := buf[:have]
		for {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			line := rest[:end]
			rest = rest[end+1:]
			if skip {
				skip = false
				continue
			}
			if !a.Work(callWork) {
				return a.Err()
			}
			if !yield(line) {
				return nil
			}
		}
		if err != nil {
			if len(rest) > 0 && !skip {
				yield(rest)
			}
			if err == io.EOF {
				err = nil
			}
			return err
		}
		if len(rest) == len(buf) {
			rest, skip = nil, true
		}
		have = copy(buf, rest)
	}
}
