package leanhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
)

// Hosts is a set of hosts, for [WithPropagationTo]. Make it with [ParseHosts]; the zero value has none.
type Hosts struct {
	names    map[string]bool // in lower case, without a dot at the end
	domains  []string        // "*.shop.internal" is ".shop.internal"
	networks []netip.Prefix
}

// ParseHosts reads patterns, each of them one of
//
//	cart.shop.internal   this name; upper and lower case, and a dot at the end, make no difference
//	*.shop.internal      all names below it, at any depth, but not shop.internal itself
//	10.0.0.7, 2001:db8::7
//	10.0.0.0/8, fd00::/8 the addresses of a network
//
// A name is compared as the request's URL has it, an address only where the URL has an address:
// names are not looked up. Ports are not compared. Names in other than ASCII letters have to be
// written as in DNS, in patterns and in URLs (xn--...). The error names every pattern that is wrong.
func ParseHosts(patterns ...string) (*Hosts, error) {
	h := &Hosts{names: map[string]bool{}}
	var errs []error
	for _, p := range patterns {
		if err := h.add(p); err != nil {
			errs = append(errs, fmt.Errorf("leanhttp: host %q: %w", p, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *Hosts) add(pattern string) error {
	if strings.Contains(pattern, "/") {
		n, err := netip.ParsePrefix(pattern)
		if err != nil {
			return fmt.Errorf("not a network, such as 10.0.0.0/8 (a host without scheme and path is wanted): %w", err)
		}
		if n.Addr().Is4In6() {
			return errors.New("write an IPv4 network as such, like 10.0.0.0/8")
		}
		h.networks = append(h.networks, n.Masked())
		return nil
	}
	if a, ok := address(strings.TrimSuffix(strings.TrimPrefix(pattern, "["), "]")); ok {
		h.networks = append(h.networks, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	name := normal(pattern)
	domain, below := strings.CutPrefix(name, "*.")
	if err := checkName(domain); err != nil {
		return err
	}
	if below {
		h.domains = append(h.domains, "."+domain)
	} else {
		h.names[name] = true
	}
	return nil
}

func checkName(name string) error {
	if name == "*" {
		return errors.New("that would be every host: leave the option out instead")
	}
	if strings.Contains(name, ":") {
		return errors.New("ports are not compared: leave it out")
	}
	if len(name) > 253 {
		return errors.New("longer than a name in DNS can be, 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return errors.New("a part between two dots is empty")
		}
		for _, c := range []byte(label) {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			case c == '*':
				return errors.New("* can only be the whole first part, as in *.shop.internal")
			default:
				return fmt.Errorf("%q is not in names of DNS: write other alphabets as in DNS (xn--)", c)
			}
		}
	}
	return nil
}

// Has reports whether the set has the host of a URL.
func (h *Hosts) Has(u *url.URL) bool {
	host := u.Hostname()
	if a, ok := address(host); ok {
		for _, n := range h.networks {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}
	host = normal(host)
	if h.names[host] {
		return true
	}
	for _, d := range h.domains {
		if len(host) > len(d) && strings.HasSuffix(host, d) {
			return true
		}
	}
	return false
}

func normal(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// address reads an address. An IPv4 address that is written as IPv6 is the same host as the IPv4
// address, and the zone of an IPv6 address only says by which interface it is reached.
func address(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}

// contextHeaders are the canonical names of the headers that a request must not carry to a host
// outside the list: the propagator's, and W3C's in any case.
func contextHeaders(fields []string) map[string]bool {
	m := map[string]bool{"Traceparent": true, "Tracestate": true, "Baggage": true}
	for _, f := range fields {
		m[textproto.CanonicalMIMEHeaderKey(f)] = true
	}
	return m
}

// inside reports whether the trace's context may go where the request goes.
func (t *Transport) inside(r *http.Request) bool {
	return t.config.hosts == nil || r.URL != nil && t.config.hosts.Has(r.URL)
}

// hides reports whether a header of the caller is left out of a request to a host outside the list.
func (t *Transport) hides(key string) bool {
	return t.outside[key] || t.outside[textproto.CanonicalMIMEHeaderKey(key)]
}

// header copies a request's header. Its values are shared, but cannot be appended to in place.
func (t *Transport) header(from http.Header, inside bool) http.Header {
	h := make(http.Header, len(from)+1)
	for k, v := range from {
		if inside || !t.hides(k) {
			h[k] = v[:len(v):len(v)]
		}
	}
	return h
}

// untraced is the request that a filter has taken out of tracing: as it is, but without context
// headers of the caller towards a host outside the list.
func (t *Transport) untraced(r *http.Request) *http.Request {
	if t.inside(r) {
		return r
	}
	for k := range r.Header {
		if t.hides(k) {
			c := *r
			c.Header = t.header(r.Header, false)
			return &c
		}
	}
	return r
}
