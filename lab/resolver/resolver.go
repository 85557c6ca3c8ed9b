// Package resolver is a server of names for what is measured, as a cluster has one: it
// knows one name, of a collector, says of all others of its domain that they do not exist,
// and counts what it is asked. It is dnsmasq. The package refuses to ask other servers:
// nothing leaves the laboratory.
package resolver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-trace/tare/workloads"
)

// Names below the domain of a cluster. Collector exists, Missing does not.
const (
	Collector = "collector.tracing.svc.cluster.local"
	Missing   = "missing.tracing.svc.cluster.local"
)

// Requirement is what has to be installed.
var Requirement = workloads.Requirement{Executable: "dnsmasq", Package: "dnsmasq-base"}

// resolv is what Kubernetes gives a container (dnsPolicy ClusterFirst): names with fewer
// than five dots are tried in each domain of the list before they are tried as they are, so
// that one look-up of a name that does not exist is four questions, and eight with IPv6.
const resolv = "nameserver %s\nsearch tracing.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"

// Seconds for which an answer holds, as Kubernetes' CoreDNS says by default.
const ttl = 30

// Resolver is a server of names that runs.
type Resolver struct {
	// Resolv is the file that stands in for /etc/resolv.conf.
	Resolv string

	group   *workloads.Group
	process *workloads.Process
	log     *os.File
	queries *counter
}

// New starts a server at port 53 of an IPv4 address of this host; Collector is at that
// address, too. It needs root.
func New(ctx context.Context, address string) (*Resolver, error) {
	group, err := workloads.NewGroup("tare-names")
	if err != nil {
		return nil, err
	}
	r := &Resolver{group: group, queries: &counter{}}
	if err := r.start(ctx, address); err != nil {
		return nil, errors.Join(fmt.Errorf("server of names: %w", err), r.Close())
	}
	return r, nil
}

func (r *Resolver) start(ctx context.Context, address string) (err error) {
	r.Resolv = filepath.Join(r.group.Dir, "resolv.conf")
	if err := os.WriteFile(r.Resolv, fmt.Appendf(nil, resolv, address), 0o644); err != nil { //nolint:gosec // services read it
		return err
	}
	path := filepath.Join(r.group.Dir, "queries.log")
	if r.log, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600); err != nil { //nolint:gosec // our own directory
		return err
	}
	exe, err := workloads.Executable(Requirement.Executable)
	if err != nil {
		return fmt.Errorf("%w: try \"apt-get install %s\"", err, Requirement.Package)
	}
	r.process, err = r.group.Start("dnsmasq", []string{
		exe, "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root", "--no-resolv", "--no-hosts",
		"--bind-interfaces", "--listen-address=" + address, "--local=/cluster.local/",
		fmt.Sprintf("--host-record=%s,%s,%d", Collector, address, ttl), "--log-queries", "--log-facility=" + path,
	}, nil)
	if err != nil {
		return err
	}
	return r.process.Await(ctx, func(context.Context) error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(address, "53"), time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}, nil)
}

// Queries is how many questions were asked since the beginning: an address by IPv4 and by
// IPv6 are two, and so are two domains of the search list.
func (r *Resolver) Queries() (uint64, error) {
	select {
	case <-r.process.Done():
		return 0, fmt.Errorf("server of names: %w", r.process.Exited())
	default:
	}
	if err := r.queries.read(r.log); err != nil {
		return 0, fmt.Errorf("log of the server of names: %w", err)
	}
	return r.queries.n, nil
}

// Close ends the server.
func (r *Resolver) Close() error {
	var err error
	if r.log != nil {
		err = r.log.Close()
	}
	return errors.Join(err, r.group.Stop())
}

// counter counts dnsmasq's lines about questions, such as
// "Nov 26 14:30:00 dnsmasq[7]: query[A] collector.tracing.svc.cluster.local from 10.224.0.2".
type counter struct {
	n    uint64
	rest []byte // of a line that is not all there yet
}

// read goes on where it ended the last time.
func (c *counter) read(from io.Reader) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		c.rest = append(c.rest, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if isQuery(c.rest) {
			c.n++
		}
		c.rest = c.rest[:0]
	}
}

func isQuery(line []byte) bool {
	_, said, ok := bytes.Cut(line, []byte("]: "))
	return ok && strings.HasPrefix(string(said), "query[")
}
