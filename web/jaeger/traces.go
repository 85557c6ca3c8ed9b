package jaeger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web/internal/answer"
	"github.com/tare-trace/tare/web/waterfall"
)

// maxAnswer bounds the traces of one response, in bytes of OTLP; JSON is about three
// times as large. Further traces are left out, and the response's errors say so.
const maxAnswer = 128 << 20

// part is what is read of a trace: all of it, and less where there is no memory for that.
var part = store.Part{Keys: waterfall.Reads, All: true}

// traces is a response that is written trace by trace.
type traces struct {
	api     *api
	ids     []pcommon.TraceID
	strict  bool // one trace, already read into first
	first   store.Found
	damaged error // why spans of first are missing
}

// trace is /api/traces/{id}. It ignores start and end, which some clients send to narrow
// the search.
func (a *api) trace(r *http.Request) (any, error) {
	id, err := parseTraceID(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	found, err := a.Store.FindPart(r.Context(), id, part)
	td := found.Traces
	if errors.Is(err, store.ErrNotFound) {
		return nil, answer.NotFound("trace not found")
	}
	if err != nil && (!errors.Is(err, store.ErrCorrupt) || td.SpanCount() == 0) {
		return nil, err
	}
	answer.NoteTrace(r.Context(), td)
	return traces{api: a, ids: []pcommon.TraceID{id}, strict: true, first: found, damaged: err}, nil
}

// search is /api/traces: whole traces that have a matching span.
func (a *api) search(r *http.Request) (any, error) {
	q, err := newParams(r).search(time.Now())
	if err != nil {
		return nil, err
	}
	if q.ids != nil {
		answer.Note(r.Context(), len(q.ids)) // at most
		return traces{api: a, ids: q.ids}, nil
	}
	found, err := a.Store.Search(r.Context(), q.Query)
	if err != nil {
		return nil, err
	}
	ids := make([]pcommon.TraceID, 0, len(found.Traces))
	for _, t := range found.Traces {
		ids = append(ids, t.TraceID)
		answer.Note(r.Context(), 1)
		for _, s := range t.Services {
			answer.Note(r.Context(), 0, s.Name)
		}
	}
	return traces{api: a, ids: ids}, nil
}

// WriteJSON implements answer.Streamer.
func (t traces) WriteJSON(ctx context.Context, w http.ResponseWriter) error {
	if _, err := w.Write([]byte(`{"data":[`)); err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	var problems []responseError
	size, written := 0, 0
	if t.damaged != nil {
		_, text := answer.Status(t.damaged)
		problems = append(problems, responseError{Msg: text, TraceID: idText(t.ids[0])})
	}
	for _, id := range t.ids {
		found := t.first
		if !t.strict {
			var err error
			found, err = t.api.Store.FindPart(ctx, id, part)
			if errors.Is(err, store.ErrNotFound) { // or expired since the search
				problems = append(problems, responseError{Msg: "trace not found", TraceID: idText(id)})
				continue
			}
			if errors.Is(err, store.ErrCorrupt) {
				_, text := answer.Status(err)
				problems = append(problems, responseError{Msg: text, TraceID: idText(id)})
				if found.Traces.SpanCount() == 0 {
					continue
				}
				err = nil
			}
			if err != nil { // the status is already sent, so the response has the traces so far
				status, text := answer.Status(err)
				problems = append(problems, responseError{Code: status, Msg: fmt.Sprintf(
					"only %d of %d traces are here: %s", written, len(t.ids), text)})
				break
			}
			if size += (&ptrace.ProtoMarshaler{}).TracesSize(found.Traces); size > maxAnswer {
				problems = append(problems, responseError{Code: http.StatusRequestEntityTooLarge, Msg: fmt.Sprintf(
					"only %d of %d traces are here: they would have more than %d MiB; ask for fewer by limit", written, len(t.ids), maxAnswer>>20)})
				break
			}
		}
		if found.Traces.SpanCount() == 0 { // clients take the first span of each trace
			continue
		}
		if written > 0 {
			if _, err := w.Write([]byte(",")); err != nil {
				return err
			}
		}
		if err := enc.Encode(convert(found)); err != nil {
			return err
		}
		written++
	}
	tail, err := json.Marshal(problems)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `],"total":0,"limit":0,"offset":0,"errors":%s}`+"\n", tail)
	return err
}
