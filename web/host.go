package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tare-trace/tare/web/internal/answer"
)

// checkHost refuses requests whose Host is neither this machine's loopback nor one of
// names.
func checkHost(next http.Handler, names []string, refused func(*http.Request, int, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hostAllowed(r.Host, names) {
			next.ServeHTTP(w, r)
			return
		}
		if refused != nil {
			refused(r, http.StatusForbidden, "host "+r.Host+" is not allowed")
		}
		answer.JSON(w, http.StatusForbidden, map[string]string{"error": "the name in the Host header is not allowed: " +
			"use localhost or 127.0.0.1, or add the name to hosts in the configuration of the page"})
	})
}

func hostAllowed(host string, names []string) bool {
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
