package bench

import (
	"net"

	"github.com/tare-trace/tare/lab/experiment"
	"github.com/tare-trace/tare/lab/resolver"
	"github.com/tare-trace/tare/workloads"
)

// collector makes the collector of a run as it is to be, and returns its host:port: the
// sink's address, or a name and a port.
func (st *Stage) collector(fault experiment.Fault) (string, error) {
	addr := st.sink.Addr()
	if fault == "" {
		return addr, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	name := resolver.Collector
	switch fault {
	case experiment.FaultSilent:
		st.sink.Stall(true)
	case experiment.FaultUnresolved:
		name = resolver.Missing
	case experiment.FaultRefused:
		closed, err := workloads.FreeAddressOf(host)
		if err != nil {
			return "", err
		}
		if _, port, err = net.SplitHostPort(closed); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(name, port), nil
}

// resolv is the file in place of /etc/resolv.conf, "" if there is none.
func (st *Stage) resolv() string {
	if st.names == nil {
		return ""
	}
	return st.names.Resolv
}
