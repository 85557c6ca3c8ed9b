package api

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/waterfall"
)

// logRecord is a log record beside a trace.
type logRecord struct {
	SpanID     string      `json:"span_id"`   // "" if it names none
	Offset     int64       `json:"offset_ns"` // from the trace's start; of when it was observed, if nothing else is known
	Service    string      `json:"service"`
	Scope      string      `json:"scope"`
	Severity   string      `json:"severity"` // as the sender calls it, else OpenTelemetry's name for its number, "" if unknown
	Number     int32       `json:"severity_number"`
	Event      string      `json:"event_name"`
	Body       string      `json:"body"`
	Attributes []attribute `json:"attributes"`
}

// logs are the records beside the trace, by time. If a part cannot be read, it says why.
func (a *api) logs(ctx context.Context, t *waterfall.Trace) (out []logRecord, damaged string, err error) {
	ld, err := a.Store.Logs(ctx, t.ID)
	if errors.Is(err, store.ErrCorrupt) {
		damaged, err = err.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	out = make([]logRecord, 0, ld.LogRecordCount())
	for _, rl := range ld.ResourceLogs().All() {
		service := waterfall.ServiceName(rl.Resource())
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				out = append(out, logOf(t, service, sl.Scope().Name(), r))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b logRecord) int { return cmp.Compare(a.Offset, b.Offset) })
	return out, damaged, nil
}

func logOf(t *waterfall.Trace, service, scope string, r plog.LogRecord) logRecord {
	at := r.Timestamp()
	if at == 0 {
		at = r.ObservedTimestamp()
	}
	_, body := value(r.Body())
	l := logRecord{
		Offset: int64(uint64(at) - t.Start), Service: service, Scope: scope, // wraps, as events' do
		Severity: r.SeverityText(), Number: int32(r.SeverityNumber()), Event: r.EventName(), Body: body,
		Attributes: attributes(r.Attributes()),
	}
	if l.Severity == "" && r.SeverityNumber() != plog.SeverityNumberUnspecified {
		l.Severity = r.SeverityNumber().String()
	}
	if id := r.SpanID(); id != (pcommon.SpanID{}) {
		l.SpanID = id.String()
	}
	return l
}
