package red

import (
	"strconv"

	"github.com/tare-trace/tare/bpf"
)

// protocolName is the value of the label protocol, as spans name it.
func protocolName(p bpf.TareProtocol) string {
	switch p {
	case bpf.TareProtocolTARE_PROTOCOL_HTTP:
		return "http"
	case bpf.TareProtocolTARE_PROTOCOL_TLS:
		return "tls"
	case bpf.TareProtocolTARE_PROTOCOL_REDIS:
		return "redis"
	case bpf.TareProtocolTARE_PROTOCOL_MEMCACHED:
		return "memcached"
	}
	return "tcp"
}

// className is the value of the label status_class.
func className(o bpf.TareOutcome) string {
	switch o {
	case bpf.TareOutcomeTARE_OUTCOME_ANSWERED:
		return "answered"
	case bpf.TareOutcomeTARE_OUTCOME_ERROR:
		return "error"
	case bpf.TareOutcomeTARE_OUTCOME_NO_RESPONSE:
		return "no_response"
	case bpf.TareOutcomeTARE_OUTCOME_RESET:
		return "reset"
	}
	return strconv.Itoa(int(o)) + "xx"
}

// failed is when a span would have the status error: HTTP from 500 on, for
// who asks from 400 on; a database's error answer; no answer.
func failed(o bpf.TareOutcome, client bool) bool {
	return o >= bpf.TareOutcomeTARE_OUTCOME_5XX || client && o == bpf.TareOutcomeTARE_OUTCOME_4XX
}
