// Package polyglot has one small service for each runtime and framework that people run, so that whether Tare links
// it is measured and not guessed. All of them do the same: GET /n/5 asks a backend over HTTP for /n/5 and redis for
// GET n:5, by the client libraries that are usual there, and answers with what both said and a space between; a
// proxy asks the backend alone, and passes its answer on. They are told by the environment: HOST, on which everybody
// listens (127.0.0.1), and the ports PORT, BACKEND and REDIS.
//
// The package knows what each service needs, how it is started, and what is expected of it. It starts nothing and
// installs nothing: `make polyglot` does, by build.sh, into a directory whose parts may be missing.
package polyglot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Worker is who works for a request within the service, from its receipt to its answer.
type Worker string

// Workers.
const (
	Process       Worker = "process"        // one request at a time
	Thread        Worker = "thread"         // one request at a time, from its first byte to its answer
	Pool          Worker = "pool"           // a thread that did not receive the request
	VirtualThread Worker = "virtual thread" // of the JVM: threads carry it in turn
	Greenlet      Worker = "greenlet"
	Task          Worker = "task" // of asyncio, of tokio
	Goroutine     Worker = "goroutine"
	Coroutine     Worker = "coroutine" // with a stack of its own
	Loop          Worker = "loop"      // callbacks of one thread
)

// Linking says which of a service's calls are linked.
type Linking string

// Linkings.
const (
	Linked   Linking = "linked"
	Partly   Linking = "partly"
	Unlinked Linking = "unlinked" // but for the first calls, before the guard has seen two requests at once
)

// Service is a service under test.
type Service struct {
	Name      string // begins with its runtime
	Runtime   string
	Framework string
	Worker    Worker
	// Client is what asks the backend.
	Client string
	// Today says which of its calls are expected to be linked by the agent as it is, with 64 requests at once and nothing set.
	Today Linking
	// By is what would tell whose a call is, where the agent does not link all today: what can be read of the process
	// from outside, a shim within it, or nothing that is known.
	By string
	// Proxy: it asks the backend alone.
	Proxy bool
	// Header: its clients send an x-request-id, which it passes on.
	Header bool
	// Fronted: clients ask another service, which passes the requests on, by FastCGI or HTTP/2.
	Fronted bool
	// Needs are programs and files of the distribution.
	Needs []Need
	// Built are files that build.sh makes, and Part is its part that makes them.
	Built []string
	Part  string

	argv  func(p *Place) []string
	front func(p *Place) []string
}

// Need is a program, or a file whose path may be a pattern, and Debian's package that has it.
type Need struct {
	File, Package string
	Unit          string // the systemd service that the package would start, or none
}

// Command is how one process is started, and where it listens.
type Command struct {
	Name string // "service", or "front"
	Port int
	Argv []string
}

// All services, by runtime.
func All() []Service {
	return withShims(slices.Concat(pythonServices(), javaServices(), nodeServices(), rubyServices(), phpServices(), nativeServices(), proxies()))
}

// Missing says why the service cannot run here, "" if it can; built is where build.sh put what it made.
func (s Service) Missing(built string) string {
	for _, n := range s.Needs {
		if _, err := n.find(); err != nil {
			return fmt.Sprintf("%v: it is in Debian's package %s", err, n.Package)
		}
	}
	for _, name := range s.Built {
		if _, err := os.Stat(filepath.Join(built, name)); err == nil {
			continue
		}
		if why, err := os.ReadFile(filepath.Join(built, "missing", s.Part)); err == nil { //nolint:gosec // our own
			return strings.TrimSpace(string(why))
		}
		return fmt.Sprintf("%s is not built: run make polyglot", name)
	}
	return ""
}

// Commands start the service; the first is whom clients ask.
func (s Service) Commands(p Place) ([]Command, error) {
	var all []Command
	if s.Fronted {
		all = append(all, Command{Name: "front", Port: p.Port, Argv: s.front(&p)})
		p.Port = p.Inner
	}
	all = append(all, Command{Name: "service", Port: p.Port, Argv: s.argv(&p)})
	return all, p.err
}

// find finds the program, or the first file of the pattern; daemons are not on everybody's path.
func (n Need) find() (string, error) {
	if filepath.IsAbs(n.File) {
		if found, err := filepath.Glob(n.File); err == nil && len(found) > 0 {
			return found[0], nil
		}
		return "", fmt.Errorf("there is no %s", n.File)
	}
	for _, name := range []string{n.File, "/usr/sbin/" + n.File} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", n.File)
}
