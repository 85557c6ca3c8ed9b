// A small service: goproxy LISTEN UPSTREAM passes on what it is asked.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	listen, upstream := os.Args[1], os.Args[2]
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+upstream+r.URL.Path, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
	log.Fatal(http.ListenAndServe(listen, http.HandlerFunc(handler))) //nolint:gosec // a test's
}
