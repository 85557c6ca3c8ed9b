package web

import (
	"net/http"

	"github.com/tare-trace/tare/internal/browser"
	"github.com/tare-trace/tare/web/internal/answer"
)

// checkHost refuses requests whose Host is neither this machine's loopback nor one of
// names.
func checkHost(next http.Handler, names []string, refused func(*http.Request, int, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if browser.Loopback(r.Host, names) {
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
