package workloads

import (
	"net"
	"slices"
	"strconv"

	"github.com/tare-trace/tare/internal/freeport"
)

// FreeAddress finds a loopback port that nobody listens on (package freeport).
func FreeAddress() (string, error) { return FreeAddressOf("127.0.0.1") }

// FreeAddressOf finds a port of one of this machine's addresses that nobody listens on.
func FreeAddressOf(host string) (string, error) {
	port, err := freeport.On(host)
	return net.JoinHostPort(host, strconv.Itoa(port)), err
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
	ports := make([]int, n)
	for i := range ports {
		var err error
		ports[i], err = freeport.Where(outside, func(port int) bool {
			return slices.ContainsFunc(inside, func(l listener) bool { return l.port == port })
		})
		if err != nil {
			return nil, err
		}
	}
	return ports, nil
}
