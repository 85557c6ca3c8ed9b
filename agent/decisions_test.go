package agent

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// What the kernel side decides is logged once per service, whatever the number of
// its containers; records of other kinds and of unknown services are not.
func TestDecisionsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	shop := &span.Resource{Service: "shop"}
	d := newDecisions(slog.New(slog.NewTextHandler(&log, nil)), func(i uint16) *span.Resource {
		if i == 1 || i == 2 {
			return shop
		}
		return nil
	}, func(number uint16) string { return "x-" + strconv.Itoa(int(number)) })
	record := func(kind bpf.TareControlType, service uint16, reason bpf.TareUnlinked) {
		d.control(bpf.Control{Type: uint32(kind), Service: service, Reason: uint32(reason)})
	}
	record(bpf.TareControlTypeTARE_LINKS, 1, 0)
	record(bpf.TareControlTypeTARE_LINKS, 2, 0)
	record(bpf.TareControlTypeTARE_REFUSED, 1, bpf.TareUnlinkedTARE_UNLINKED_OVERLAP)
	record(bpf.TareControlTypeTARE_REFUSED, 2, bpf.TareUnlinkedTARE_UNLINKED_OVERLAP)
	record(bpf.TareControlTypeTARE_REFUSED, 3, bpf.TareUnlinkedTARE_UNLINKED_STACK)
	record(bpf.TareControlTypeTARE_EXEC, 1, 0)
	d.control(bpf.Control{Type: uint32(bpf.TareControlTypeTARE_LINKS), Service: 2, Reason: workerHeader, Port: 7})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], "service=shop linking=header") || !strings.Contains(lines[2], "header=x-7") || !strings.Contains(lines[0], "service=shop linking=thread") || !strings.Contains(lines[1], "reason=overlap") {
		t.Errorf("logged:\n%s", log.String())
	}
}
