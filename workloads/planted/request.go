package planted

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Path of the requests, up to their number, which is the account's, and what follows that. Where
// it is received, the request has a trace.
const (
	Path    = "/api/account/"
	pathEnd = ".json" // so that the number ends where it ends, whatever follows the path
)

// Number of the request whose path ends with this segment.
func Number(segment string) (uint64, error) {
	digits, ok := strings.CutSuffix(segment, pathEnd)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("the path ends with %q: want a number and %s", segment, pathEnd)
	}
	return n, nil
}

// Fields of the request, and the keys of the attributes in which a service records them. The
// names tell nothing about the values: what is found is found by its form.
const (
	HeaderSecret    = "X-Note"
	HeaderDecoy     = "X-Reference"
	note, reference = "note", "reference" // parameters, fields of the body, members of the baggage
)

// AppendPath appends the path and query of a POST.
func AppendPath(dst []byte, n uint64) []byte {
	a := Of(n)
	dst = strconv.AppendUint(append(dst, Path...), n, 10)
	dst = append(dst, pathEnd+"?"+note+"="+url.QueryEscape(a.Secret(Query).Text)...)
	return append(dst, "&"+reference+"="+url.QueryEscape(a.Decoy(Query).Text)...)
}

// AppendHeader appends the fields of a request's head.
func AppendHeader(dst []byte, n uint64) []byte {
	a := Of(n)
	field := func(name, value string) { dst = append(dst, name+": "+value+"\r\n"...) }
	field(HeaderSecret, a.Secret(Header).Text)
	field(HeaderDecoy, a.Decoy(Header).Text)
	// Of baggage, only what its grammar asks for is escaped, which PathEscape does and more.
	field("baggage", note+"="+url.PathEscape(a.Secret(Baggage).Text)+","+reference+"="+url.PathEscape(a.Decoy(Baggage).Text))
	return dst
}

// AppendBody appends the body, JSON.
func AppendBody(dst []byte, n uint64) []byte {
	a := Of(n)
	body, err := json.Marshal(map[string]any{"account": n, note: a.Secret(Body).Text, reference: a.Decoy(Body).Text})
	if err != nil { // a number and two texts
		panic(err)
	}
	return append(dst, body...)
}

// Statement is the SQL statement that the service executes for a request, with its literals.
func (a Account) Statement() string {
	return "UPDATE accounts SET note = '" + a.Secret(SQL).Text + "' WHERE id = " + strconv.FormatUint(a.Number, 10)
}

// Message is the text of the exception that the service records.
func (a Account) Message() string {
	return "cannot notify " + a.Secret(Event).Text + ": mailbox is full, " + a.Decoy(Event).Text
}

// SpanName is the name of a span that is named after its data, as it should not be.
func (a Account) SpanName() string { return "notify " + a.Secret(Name).Text }

// Record is a text that a service records of a request.
type Record struct {
	Place Place
	Key   string // of an attribute, of the span or of an event; "" of a span's name
	Text  string
}

// Records is what a service records of request n that leaves out nothing.
func Records(n uint64) []Record {
	a := Of(n)
	_, query, _ := strings.Cut(string(AppendPath(nil, n)), "?")
	return []Record{
		{Header, "http.request.header.x-note", a.Secret(Header).Text},
		{Header, "http.request.header.x-reference", a.Decoy(Header).Text},
		{Query, "url.query", query},
		{Body, "app.request.body", string(AppendBody(nil, n))},
		{Baggage, "baggage." + note, a.Secret(Baggage).Text},
		{Baggage, "baggage." + reference, a.Decoy(Baggage).Text},
		{SQL, "db.query.text", a.Statement()},
		{Attribute, "app.account.note", a.Secret(Attribute).Text},
		{Attribute, "app.account.reference", a.Decoy(Attribute).Text},
		{Event, "exception.message", a.Message()},
		{Name, "", a.SpanName()},
	}
}
