package tracelog

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/otel/lean/logfile"
)

// maxDepth bounds how deep arrays and maps of an attribute are nested.
const maxDepth = 100

var (
	eventName = []byte(logfile.EventName)
	errOther  = errors.New("not the line of a span")
	kinds     = map[string]ptrace.SpanKind{
		"": ptrace.SpanKindUnspecified, "internal": ptrace.SpanKindInternal, "server": ptrace.SpanKindServer,
		"client": ptrace.SpanKindClient, "producer": ptrace.SpanKindProducer, "consumer": ptrace.SpanKindConsumer,
	}
	statuses = map[string]ptrace.StatusCode{
		"": ptrace.StatusCodeUnset, "ok": ptrace.StatusCodeOk, "error": ptrace.StatusCodeError,
	}
)

// record is a line, or an element of its attribute logfile.BelowKey.
type record struct {
	EventName            string
	TraceID              string `json:"TraceId"`
	SpanID               string `json:"SpanId"`
	Timestamp            uint64 `json:",string"`
	TraceFlags           uint32
	Body                 string
	Resource             json.RawMessage
	InstrumentationScope struct {
		Name, Version, SchemaURL string
		Attributes               json.RawMessage
	}
	Attributes json.RawMessage
}

// own is the attribute logfile.SpanKey.
type own struct {
	Duration          int64  `json:"duration_ns"`
	Parent            string `json:"parent_span_id"`
	Kind              string
	Status            string
	StatusMessage     string `json:"status_message"`
	TraceState        string `json:"trace_state"`
	Flags             uint32
	ResourceSchemaURL string `json:"resource_schema_url"`
	Events            []struct {
		Time       uint64 `json:",string"`
		Name       string
		Attributes json.RawMessage
		Dropped    uint32 `json:"dropped_attributes"`
	}
	Links []struct {
		TraceID    string `json:"trace_id"`
		SpanID     string `json:"span_id"`
		TraceState string `json:"trace_state"`
		Flags      uint32
		Attributes json.RawMessage
		Dropped    uint32 `json:"dropped_attributes"`
	}
	DroppedAttributes uint32 `json:"dropped_attributes"`
	DroppedEvents     uint32 `json:"dropped_events"`
	DroppedLinks      uint32 `json:"dropped_links"`
}

// decode appends the spans of a line, and returns how many these are. Text before the object, as
// container runtimes write it, is skipped. After an error, td is as it was.
func decode(line []byte, td ptrace.Traces) (spans int, err error) {
	if at := bytes.IndexByte(line, '{'); at > 0 {
		line = line[at:]
	}
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		// An object of another logger may have fields of these names and other types.
		if !bytes.Contains(line, []byte(`"EventName"`)) {
			err = errOther
		}
		return 0, err
	}
	if r.EventName != logfile.EventName {
		return 0, errOther
	}
	var trace pcommon.TraceID
	if err := parseID(r.TraceID, trace[:]); err != nil {
		return 0, err
	}
	fresh := ptrace.NewTraces()
	rs := fresh.ResourceSpans().AppendEmpty()
	if err := decodeMap(r.Resource, rs.Resource().Attributes(), nil); err != nil {
		return 0, err
	}
	var below []record
	if err := r.decode(trace, rs, &below); err != nil {
		return 0, err
	}
	for i := range below {
		if err := below[i].decode(trace, rs, nil); err != nil {
			return 0, err
		}
	}
	fresh.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	return 1 + len(below), nil
}

// decode appends the span of a record. below receives the records below it, nil: there may be none.
func (r *record) decode(trace pcommon.TraceID, rs ptrace.ResourceSpans, below *[]record) error {
	var id, parent pcommon.SpanID
	if err := parseID(r.SpanID, id[:]); err != nil {
		return err
	}
	ss, err := r.scope(rs)
	if err != nil {
		return err
	}
	s := ss.Spans().AppendEmpty()
	var o own
	err = decodeMap(r.Attributes, s.Attributes(), func(key string, d *json.Decoder) (bool, error) {
		switch {
		case key == logfile.SpanKey:
			return true, d.Decode(&o)
		case key == logfile.BelowKey && below != nil:
			return true, d.Decode(below)
		case key == logfile.BelowKey:
			return false, errors.New("spans below a span that is itself below another")
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	kind, known := kinds[o.Kind]
	status, also := statuses[o.Status]
	if !known || !also {
		return fmt.Errorf("kind %q, status %q", o.Kind, o.Status)
	}
	s.SetTraceID(trace)
	s.SetSpanID(id)
	if o.Parent != "" {
		if err := parseID(o.Parent, parent[:]); err != nil {
			return err
		}
	}
	s.SetParentSpanID(parent)
	s.SetName(r.Body)
	s.SetKind(kind)
	s.SetStartTimestamp(pcommon.Timestamp(r.Timestamp))
	s.SetEndTimestamp(pcommon.Timestamp(r.Timestamp + uint64(o.Duration))) //nolint:gosec // wraps as the writer's difference does
	s.SetFlags(r.TraceFlags | o.Flags)
	s.TraceState().FromRaw(o.TraceState)
	s.Status().SetCode(status)
	s.Status().SetMessage(o.StatusMessage)
	s.SetDroppedAttributesCount(o.DroppedAttributes)
	s.SetDroppedEventsCount(o.DroppedEvents)
	s.SetDroppedLinksCount(o.DroppedLinks)
	if o.ResourceSchemaURL != "" {
		rs.SetSchemaUrl(o.ResourceSchemaURL)
	}
	return o.details(s)
}

func (o *own) details(s ptrace.Span) error {
	for _, e := range o.Events {
		to := s.Events().AppendEmpty()
		to.SetTimestamp(pcommon.Timestamp(e.Time))
		to.SetName(e.Name)
		to.SetDroppedAttributesCount(e.Dropped)
		if err := decodeMap(e.Attributes, to.Attributes(), nil); err != nil {
			return err
		}
	}
	for _, l := range o.Links {
		to := s.Links().AppendEmpty()
		var trace pcommon.TraceID
		var id pcommon.SpanID
		if err := errors.Join(linkID(l.TraceID, trace[:]), linkID(l.SpanID, id[:])); err != nil {
			return err
		}
		to.SetTraceID(trace)
		to.SetSpanID(id)
		to.TraceState().FromRaw(l.TraceState)
		to.SetFlags(l.Flags)
		to.SetDroppedAttributesCount(l.Dropped)
		if err := decodeMap(l.Attributes, to.Attributes(), nil); err != nil {
			return err
		}
	}
	return nil
}

// scope returns the last scope of the resource if it is the record's, or appends it.
func (r *record) scope(rs ptrace.ResourceSpans) (ptrace.ScopeSpans, error) {
	from := &r.InstrumentationScope
	if n := rs.ScopeSpans().Len(); n > 0 && len(from.Attributes) == 0 {
		last := rs.ScopeSpans().At(n - 1)
		scope := last.Scope()
		if scope.Name() == from.Name && scope.Version() == from.Version && last.SchemaUrl() == from.SchemaURL && scope.Attributes().Len() == 0 {
			return last, nil
		}
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(from.Name)
	ss.Scope().SetVersion(from.Version)
	ss.SetSchemaUrl(from.SchemaURL)
	return ss, decodeMap(from.Attributes, ss.Scope().Attributes(), nil)
}

// parseID reads an id of as many bytes as id has.
func parseID(text string, id []byte) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) || strings.Trim(text, "0") == "" {
		return fmt.Errorf("%q is no id of %d bytes", text, len(id))
	}
	copy(id, b)
	return nil
}

// linkID reads an id of a link, which careless senders leave out or have zeros for.
func linkID(text string, id []byte) error {
	if strings.Trim(text, "0") == "" {
		return nil
	}
	return parseID(text, id)
}

// decodeMap decodes an object, or nothing. special may decode the value of a key itself.
func decodeMap(raw json.RawMessage, m pcommon.Map, special func(key string, d *json.Decoder) (bool, error)) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("no object of attributes: %w", errors.Join(err, errOther))
	}
	return decodeFields(d, m, 0, special)
}

// decodeFields decodes what follows the brace of an object.
func decodeFields(d *json.Decoder, m pcommon.Map, depth int, special func(key string, d *json.Decoder) (bool, error)) error {
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key := t.(string) // as JSON has it
		if special != nil {
			if done, err := special(key, d); done || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := decodeValue(d, m.PutEmpty(key), depth); err != nil {
			return err
		}
	}
	_, err := d.Token() // the closing brace
	return err
}

func decodeValue(d *json.Decoder, v pcommon.Value, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case string:
		v.SetStr(t)
	case bool:
		v.SetBool(t)
	case json.Number:
		return decodeNumber(t.String(), v)
	case json.Delim:
		if depth > maxDepth {
			return fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		if t == '{' {
			m := v.SetEmptyMap()
			if err := decodeFields(d, m, depth+1, nil); err != nil {
				return err
			}
			rare(v, m)
			return nil
		}
		list := v.SetEmptySlice()
		for d.More() {
			if err := decodeValue(d, list.AppendEmpty(), depth+1); err != nil {
				return err
			}
		}
		_, err := d.Token() // the closing bracket
		return err
	}
	return nil // null
}

// decodeNumber tells integers from doubles, which the writer gives a point or an exponent.
func decodeNumber(text string, v pcommon.Value) error {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v.SetInt(n)
			return nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	v.SetDouble(f)
	return err
}

// rare makes the values of objects that stand for what JSON has not.
func rare(v pcommon.Value, m pcommon.Map) {
	if m.Len() != 1 {
		return
	}
	if text, ok := m.Get("bytesValue"); ok && text.Type() == pcommon.ValueTypeStr {
		if b, err := base64.StdEncoding.DecodeString(text.Str()); err == nil {
			v.SetEmptyBytes().FromRaw(b)
		}
		return
	}
	if text, ok := m.Get("doubleValue"); ok && text.Type() == pcommon.ValueTypeStr {
		switch text.Str() {
		case "NaN":
			v.SetDouble(math.NaN())
		case "Infinity":
			v.SetDouble(math.Inf(1))
		case "-Infinity":
			v.SetDouble(math.Inf(-1))
		}
	}
}
