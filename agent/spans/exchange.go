package spans

import "github.com/tare-trace/tare/bpf"

// exchange is what was seen of a request and its response. Anything may stand in
// them: they were taken from the wire and cut at a fixed length.
type exchange struct {
	request, response []byte
	size              int // of the request, in bytes, with what was not seen
}

func (o *open) exchange() exchange {
	size := o.sent
	if o.role == bpf.TareRoleTARE_SERVER {
		size = o.received
	}
	return exchange{o.request[:o.requestN], o.response[:o.responseN], int(size)} //nolint:gosec // of one request
}
