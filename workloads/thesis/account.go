package main

import (
	"errors"
	"io"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/workloads/internal/service"
	"github.com/tare-trace/tare/workloads/planted"
)

// maxAccount bounds the body of a request to /api/account (bytes).
const maxAccount = 64 << 10

// account records what services should not: of the client, the note in a header, the query,
// the body and the baggage; of what it knows itself, the note of a customer in a statement of
// SQL, in an attribute, in an exception and in the name of a span. What these are is said by
// package planted. In the end it answers with the status: what fails has been recorded, too.
func account(tracer trace.Tracer, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := planted.Number(r.PathValue("request"))
		if err != nil {
			service.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAccount))
		if err != nil {
			service.WriteError(w, http.StatusBadRequest, "body: "+err.Error())
			return
		}
		customer := planted.Of(n) // traced or not: it stands for what a database would answer
		if span := trace.SpanFromContext(r.Context()); span.IsRecording() {
			span.SetAttributes(recorded(r, body, customer)...)
		}

		ctx, statement := tracer.Start(r.Context(), "UPDATE accounts", trace.WithSpanKind(trace.SpanKindClient))
		if statement.IsRecording() {
			statement.SetAttributes(attribute.String("db.system.name", "postgresql"), attribute.String("db.query.text", customer.Statement()))
		}
		sum := squares()
		statement.End()

		_, notify := tracer.Start(ctx, customer.SpanName())
		if notify.IsRecording() {
			notify.RecordError(errors.New(customer.Message()))
		}
		notify.End()
		service.WriteJSON(w, status, map[string]any{"endpoint": "account", "account": n, "sum": sum})
	}
}

// recorded are the attributes of the request's span.
func recorded(r *http.Request, body []byte, customer planted.Account) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.StringSlice("http.request.header.x-note", r.Header.Values(planted.HeaderSecret)),
		attribute.StringSlice("http.request.header.x-reference", r.Header.Values(planted.HeaderDecoy)),
		attribute.String("url.query", r.URL.RawQuery),
		attribute.String("app.request.body", string(body)),
		attribute.String("app.account.note", customer.Secret(planted.Attribute).Text),
		attribute.String("app.account.reference", customer.Decoy(planted.Attribute).Text),
	}
	for _, m := range baggage.FromContext(r.Context()).Members() {
		out = append(out, attribute.String("baggage."+m.Key(), m.Value()))
	}
	return out
}
