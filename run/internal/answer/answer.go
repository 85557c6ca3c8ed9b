// Package answer waits until an HTTP server answers. Any response counts, also one that
// requires a password.
package answer

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// interval is the time between two attempts.
const interval = 50 * time.Millisecond

// Wait waits until something answers at an address, and returns its URL. It asks without
// TLS, because a server with TLS says so in its response.
func Wait(ctx context.Context, address string) (url string, err error) {
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if scheme, ok := ask(ctx, client, address); ok {
			return scheme + "://" + address + "/", nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}

func ask(ctx context.Context, client *http.Client, address string) (scheme string, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", false
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // an incomplete body will do
	// The response of Go's server to a client without TLS.
	if resp.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server") {
		return "https", true
	}
	return "http", true
}
