// Package freeport finds ports for services that start later.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Ports of services are taken from below the range from which Linux gives
// ports to outgoing connections (from 32768 by default): a client under load
// must not hold the port of a service that is about to start, or to restart.
const firstPort, lastPort = 12000, 32000

// mostGiven is how many ports this process keeps from being given again: each is a descriptor.
const mostGiven = 2000

// given are the ports that this process was given, the oldest first.
var given struct {
	sync.Mutex
	names []net.Listener
}

// On finds a port of an address of this machine (of "" all) that nobody listens on. It is given
// neither again nor to another process of this network namespace that asks here, until this process
// ends or has been given 2,000 others: services start later than ports are chosen, and the rules of an
// agent that select a service name its port in whatever namespace.
func On(host string) (int, error) {
	return Where(host, func(int) bool { return false })
}

// free returns nil if nobody listens on an address. ForkLock keeps other goroutines from forking: a child inherits the
// listening socket, and keeps the port in use until it calls exec.
func free(address string) error {
	clonedOnce()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// clonedOnce waits until os has made the one child that it clones without ForkLock, when it looks whether processes have
// descriptors (Go 1.26, os.checkPidfd).
var clonedOnce = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
})

// Where is On, but for ports that are taken.
func Where(host string, taken func(port int) bool) (int, error) {
	given.Lock()
	defer given.Unlock()
	const all = lastPort - firstPort
	start := rand.IntN(all) //nolint:gosec // not a secret
	for i := range all {
		port := firstPort + (start+i)%all
		if taken(port) {
			continue
		}
		// The name of an abstract unix socket is given up by the kernel, however this process ends. It comes first: who
		// does not get it must not listen on a port that another process was given.
		name, err := net.Listen("unix", fmt.Sprintf("@tare-port-%d", port))
		if err != nil {
			continue
		}
		if err := free(net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
			_ = name.Close()
			if errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			return 0, fmt.Errorf("no port of %q: %w", host, err)
		}
		if given.names = append(given.names, name); len(given.names) > mostGiven {
			_ = given.names[0].Close()
			given.names = slices.Delete(given.names, 0, 1)
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}
