package leanhttp

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/tare-trace/tare/otel/lean"
)

// attributes takes attributes one by one: into a lean span at once, else into
// a list for the API.
type attributes struct {
	span *lean.Span
	list []attribute.KeyValue
}

func (a *attributes) text(k attribute.Key, v string) {
	if a.span != nil {
		a.span.SetString(k, v)
		return
	}
	a.list = append(a.list, k.String(v))
}

func (a *attributes) number(k attribute.Key, v int64) {
	if a.span != nil {
		a.span.SetInt(k, v)
		return
	}
	a.list = append(a.list, k.Int64(v))
}

// originalMethod is for a method that is not what http.request.method says.
func (a *attributes) originalMethod(name, m string) {
	if m != "" && m != name {
		a.text(semconv.HTTPRequestMethodOriginalKey, m)
	}
}

func methodName(m string) string {
	if name, ok := knownMethod(m); ok {
		return name
	}
	return "_OTHER"
}

// protocol leaves the name away where http.request.method implies it.
func (a *attributes) protocol(proto string) {
	name, version, _ := strings.Cut(proto, "/")
	if name != "" && name != "HTTP" {
		if name = strings.ToLower(name); name != "http" {
			a.text(semconv.NetworkProtocolNameKey, name)
		}
	}
	if version != "" {
		a.text(semconv.NetworkProtocolVersionKey, version)
	}
}

// server writes the attributes that are known when a request arrives, in
// otelhttp's order: it decides which of them a low limit cuts off.
func (a *attributes) server(name string, r *http.Request) {
	host, port := splitHostPort(r.Host)
	if name != "" {
		p := port
		if host, port = splitHostPort(name); port < 0 {
			port = p
		}
	}
	a.text(semconv.ServerAddressKey, host)
	method := methodName(r.Method)
	a.text(semconv.HTTPRequestMethodKey, method)
	scheme, usual := "http", 80
	if r.TLS != nil {
		scheme, usual = "https", 443
	}
	a.text(semconv.URLSchemeKey, scheme)
	if port > 0 && port != usual {
		a.number(semconv.ServerPortKey, int64(port))
	}
	a.originalMethod(method, r.Method)
	peer, peerPort := splitHostPort(r.RemoteAddr)
	if peer != "" {
		a.text(semconv.NetworkPeerAddressKey, peer)
		if peerPort > 0 {
			a.number(semconv.NetworkPeerPortKey, int64(peerPort))
		}
	}
	if agent := first(r.Header, "User-Agent"); agent != "" {
		a.text(semconv.UserAgentOriginalKey, agent)
	}
	client, _, _ := strings.Cut(first(r.Header, "X-Forwarded-For"), ",")
	if client == "" {
		client = peer
	}
	if client != "" {
		a.text(semconv.ClientAddressKey, client)
	}
	if r.URL != nil && r.URL.Path != "" {
		a.text(semconv.URLPathKey, r.URL.Path)
	}
	a.protocol(r.Proto)
	if route := routeOf(r.Pattern); route != "" {
		a.text(semconv.HTTPRouteKey, route)
	}
}

// served writes the attributes that are known when a response is complete.
// Sizes are in bytes.
func (a *attributes) served(read, written int64, status int) {
	if read > 0 {
		a.number(semconv.HTTPRequestBodySizeKey, read)
	}
	if written > 0 {
		a.number(semconv.HTTPResponseBodySizeKey, written)
	}
	if status > 0 {
		a.number(semconv.HTTPResponseStatusCodeKey, int64(status))
	}
}

// client writes the attributes that are known when a request leaves.
func (a *attributes) client(r *http.Request) {
	method := methodName(r.Method)
	a.text(semconv.HTTPRequestMethodKey, method)
	a.originalMethod(method, r.Method)
	var full, host string
	port, usual := -1, 80
	if r.URL != nil {
		u := *r.URL
		u.User = nil // credentials stay here
		full = u.String()
		host, port = splitHostPort(u.Host)
		if u.Scheme == "https" {
			usual = 443
		}
	}
	if host == "" && port <= 0 {
		host, port = splitHostPort(first(r.Header, "Host"))
	}
	a.text(semconv.URLFullKey, full)
	a.text(semconv.ServerAddressKey, host)
	if port > 0 && port != usual {
		a.number(semconv.ServerPortKey, int64(port))
	}
	a.protocol(r.Proto)
}

// answered writes the attributes that are known when a response's header is
// here.
func (a *attributes) answered(r *http.Response) {
	if r.StatusCode > 0 {
		a.number(semconv.HTTPResponseStatusCodeKey, int64(r.StatusCode))
	}
	if r.StatusCode >= 400 || r.StatusCode < 100 {
		a.text(semconv.ErrorTypeKey, strconv.Itoa(r.StatusCode))
	}
	a.protocol(r.Proto)
}

// first is h.Get for a key in its canonical form.
func first(h http.Header, key string) string {
	if v := h[key]; len(v) != 0 {
		return v[0]
	}
	return ""
}

// knownMethod returns the method of RFC 9110 or RFC 5789 that m is in any
// letter case.
func knownMethod(m string) (string, bool) {
	if isMethod(m) {
		return m, true
	}
	m = strings.ToUpper(m)
	return m, isMethod(m)
}

func isMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead,
		http.MethodPatch, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return true
	}
	return false
}

// routeOf is the path of a pattern of http.ServeMux: [METHOD ][HOST]/[PATH].
func routeOf(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i >= 0 {
		return pattern[i:]
	}
	return ""
}

// splitHostPort splits host:port where both, or one, may be missing. The port
// is -1 if there is none or it is no number of 16 bits; the host is "" if s
// cannot be understood.
func splitHostPort(s string) (host string, port int) {
	colon := strings.LastIndexByte(s, ':')
	if strings.HasPrefix(s, "[") {
		end := strings.LastIndexByte(s, ']')
		if end < 0 {
			return "", -1
		}
		if colon < end {
			return s[1:end], -1
		}
	} else if colon < 0 {
		return s, -1
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return host, -1
	}
	p, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, -1
	}
	return host, int(p)
}
