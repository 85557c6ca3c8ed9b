package workloads

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports of services are taken from below the range from which Linux gives
// ports to outgoing connections (from 32768 by default): a client under load
// must not hold the port of a service that is being restarted.
const firstPort, lastPort = 20000, 32000

// FreeAddress finds a loopback port that nobody listens on just now.
func FreeAddress() (string, error) { return FreeAddressOf("127.0.0.1") }

// FreeAddressOf finds a port of one of this machine's addresses that nobody listens on
// just now.
func FreeAddressOf(host string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// freePorts finds n different ports that nobody listens on, neither inside of
// the network nor on the laboratory's side of it; without one, on loopback.
func freePorts(network *Network, n int) ([]int, error) {
	outside := "127.0.0.1"
	var inside []listener
	if network != nil {
		outside = network.Gateway
		var err error
		if inside, err = listeners(network); err != nil {
			return nil, err
		}
	}
	ports := make([]int, 0, n)
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // not a secret
		if slices.ContainsFunc(inside, func(l listener) bool { return l.port == port }) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(outside, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // held until all are found: all different
		ports = append(ports, port)
	}
	return ports, nil
}
