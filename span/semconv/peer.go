package semconv

import "net"

// Peer is what a client or producer span says of whom it called, for where that peer
// sent no span of its own.
type Peer struct {
	Service     string // peer.service
	System      string // db.system.name, or db.system of older conventions
	Address     string // server.address
	Port        string // server.port
	Destination string // messaging.destination.name
}

// Field is where the value of an attribute belongs, nil for one that names no peer.
func (p *Peer) Field(key string) *string {
	switch key {
	case "peer.service":
		return &p.Service
	case "db.system.name", "db.system":
		return &p.System
	case "server.address":
		return &p.Address
	case "server.port":
		return &p.Port
	case "messaging.destination.name":
		return &p.Destination
	}
	return nil
}

// Name is what the peer is called, "" if the span does not say. producer: the span is
// one, so that the queue is meant, and not the broker that has it.
func (p *Peer) Name(producer bool) string {
	address := p.Address
	if address != "" && p.Port != "" {
		address = net.JoinHostPort(address, p.Port)
	}
	switch {
	case p.Service != "":
		return p.Service
	case p.System != "" && address != "":
		return p.System + " " + address
	case p.System != "":
		return p.System
	case p.Destination != "" && (address == "" || producer):
		return p.Destination
	}
	return address
}
