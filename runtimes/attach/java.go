package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Java has a running JVM load an agent, as jcmd and the Attach API do: a file and SIGQUIT make it listen on a unix socket
// in its /tmp, which takes commands. The JVM accepts root and its own user. A jar that the process cannot see at that path (a
// container's) is copied into its /tmp and stays there, for the JVM reads it again.
func Java(ctx context.Context, pid int, jar, options string) error {
	p, err := readStatus(pid)
	if err != nil {
		return err
	}
	jar, err = visible(pid, jar, p)
	if err != nil {
		return err
	}
	socket := procfs(pid, fmt.Sprintf("root/tmp/.java_pid%d", p.pid))
	if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
		if err := listen(ctx, pid, p, socket); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	answer, err := command(ctx, socket, "load", "instrument", "false", jar+"="+options)
	if err != nil {
		return fmt.Errorf("JVM %d: %w", pid, err)
	}
	return loaded(pid, answer)
}

// loaded reads what a JVM says to a load command: a line of 0, then, by version, "return code: 0" or 0.
func loaded(pid int, answer string) error {
	status, rest, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	rest = strings.TrimSpace(rest)
	code := strings.TrimPrefix(rest, "return code: ")
	if status != "0" || (code != "0" && code != "") {
		return fmt.Errorf("JVM %d did not load the agent: %s", pid, strings.TrimSpace(strings.Join([]string{status, rest}, " ")))
	}
	return nil
}

type status struct {
	pid      int // in its own pid namespace
	uid, gid int // effective
	catches  uint64
}

func readStatus(pid int) (status, error) {
	text, err := os.ReadFile(procfs(pid, "status"))
	if err != nil {
		return status{}, err
	}
	return parseStatus(pid, string(text))
}

func parseStatus(pid int, text string) (status, error) {
	s := status{pid: pid, uid: -1, gid: -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		var err error
		switch {
		case key == "NSpid" && len(f) > 0: // kernels before 4.1 have none
			s.pid, err = strconv.Atoi(f[len(f)-1])
		case key == "Uid" && len(f) > 1:
			s.uid, err = strconv.Atoi(f[1])
		case key == "Gid" && len(f) > 1:
			s.gid, err = strconv.Atoi(f[1])
		case key == "SigCgt" && len(f) > 0:
			s.catches, err = strconv.ParseUint(f[0], 16, 64)
		}
		if err != nil {
			return status{}, fmt.Errorf("process %d: %s: %w", pid, key, err)
		}
	}
	if s.uid < 0 || s.gid < 0 {
		return status{}, fmt.Errorf("process %d: its status names no user", pid)
	}
	return s, nil
}

// listen makes the JVM open its socket.
func listen(ctx context.Context, pid int, p status, socket string) error {
	// SIGQUIT ends a process that does not catch it: a JVM with -Xrs, or one that has not started yet.
	if p.catches&(1<<(syscall.SIGQUIT-1)) == 0 {
		return fmt.Errorf("JVM %d does not take SIGQUIT (-Xrs, or it has just begun)", pid)
	}
	name := fmt.Sprintf(".attach_pid%d", p.pid)
	var file string
	var err error
	for _, dir := range []string{"cwd", "root/tmp"} { // where the JVM looks for it, in this order
		file = filepath.Join(procfs(pid, dir), name)
		var f *os.File
		if f, err = os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600); err == nil || errors.Is(err, os.ErrExist) {
			if err == nil {
				err = f.Chown(p.uid, p.gid) // the JVM believes its own user only
				_ = f.Close()               // empty
			} else {
				err = nil
			}
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("JVM %d did not open its socket (-XX:+DisableAttachMechanism?): %w", pid, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// command sends a command of the first version of the protocol, which takes three arguments, and reads the answer to its end.
func command(ctx context.Context, socket, name string, args ...string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	w := bufio.NewWriter(c)
	for _, s := range append([]string{"1", name}, args...) {
		if strings.ContainsRune(s, 0) {
			return "", errors.New("an argument has a zero byte")
		}
		_, _ = w.WriteString(s + "\x00") // Flush says what failed
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 64<<10))
	return string(answer), err
}

// visible returns a path by which the process sees the jar.
func visible(pid int, jar string, p status) (string, error) {
	jar, err := filepath.Abs(jar)
	if err != nil {
		return "", err
	}
	here, err := os.Stat(jar)
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(filepath.Join(procfs(pid, "root"), jar)); err == nil && os.SameFile(here, there) {
		return jar, nil
	}
	from, err := os.Open(jar)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // it was read
	to, err := os.CreateTemp(procfs(pid, "root/tmp"), "tare-java-*.jar")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	err = errors.Join(err, to.Chown(p.uid, p.gid), to.Close())
	if err != nil {
		_ = os.Remove(to.Name())
		return "", err
	}
	return filepath.Join("/tmp", filepath.Base(to.Name())), nil
}
