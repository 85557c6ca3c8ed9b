package bound

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tare-trace/tare/collector/internal/limit"
)

// partial is OTLP's answer to a request of which spans were rejected.
func partial(r *limit.Rejected) ptraceotlp.ExportResponse {
	answer := ptraceotlp.NewExportResponse()
	answer.PartialSuccess().SetRejectedSpans(r.Spans())
	answer.PartialSuccess().SetErrorMessage(r.Text())
	return answer
}

// encoded is an answer of gRPC that is already encoded.
type encoded []byte

// rejecting is a response that tells which spans of the request were rejected: receivers do not know it. OTLP has a
// field for it. The others have none: their answer is 400 if no span was accepted, else it has a text.
type rejecting struct {
	http.ResponseWriter
	rejected *limit.Rejected
	refuse   func(*refusal) // counts
	otlp     bool
	media    string
	replaced bool
}

// Unwrap is for http.ResponseController.
func (w *rejecting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *rejecting) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *rejecting) WriteHeader(status int) {
	if status == http.StatusBadRequest && !w.rejected.Decoded() {
		w.refuse(bad("malformed", "the request cannot be decoded: the answer to its sender says why"))
	}
	if status/100 != 2 || w.rejected.Spans() == 0 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.replaced = true
	var body []byte
	var err error
	switch {
	case !w.otlp:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(w.rejected.Text() + "\n")
		if w.rejected.All() {
			status = http.StatusBadRequest
		}
	case w.media == json:
		body, err = partial(w.rejected).MarshalJSON()
	default:
		body, err = partial(w.rejected).MarshalProto()
	}
	if err != nil { // no answer of ours cannot be encoded
		http.Error(w.ResponseWriter, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.ResponseWriter.WriteHeader(status)
	_, _ = w.ResponseWriter.Write(body) // the peer may be gone
}
