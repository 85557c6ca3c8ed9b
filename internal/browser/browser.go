// Package browser tells requests that the page of another site makes a browser send from
// those that somebody here meant. It is for servers on loopback addresses: no firewall
// keeps a browser on the same machine from them.
package browser

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Loopback reports whether the Host of a request is localhost, a loopback address or one of
// names. Otherwise a foreign page whose name points to 127.0.0.1 sent it (DNS rebinding).
func Loopback(host string, names []string) bool {
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761: always loopback
		return true
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return a.Zone() == "" && a.Unmap().IsLoopback() // a zone may be any text
	}
	return host != "" && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) })
}

// Foreign reports whether a page of another origin sent a request, as browsers say it: by
// Origin, which they add to every POST, or by Sec-Fetch-Site.
func Foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	origin := r.Header.Get("Origin")
	return origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host
}

// Local answers requests for this machine's loopback only, and no others that a browser
// sends, if the server's address is loopback; on other addresses it changes nothing,
// because names and readers are not known there.
func Local(address net.Addr, next http.Handler) http.Handler {
	a, err := netip.ParseAddrPort(address.String())
	if err != nil || !a.Addr().Unmap().IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Loopback(r.Host, nil) || Foreign(r) {
			http.Error(w, "refused: use localhost or 127.0.0.1, and no page of another site", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
