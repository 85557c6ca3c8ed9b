package workloads

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/polyglot"
)

// Each service that can be had answers 1,000 numbered requests, 64 at once, with what the backend and redis say of
// that number.
func TestPolyglot(t *testing.T) {
	const requests, clients = 1000, 64
	for _, s := range polyglot.All() {
		t.Run(s.Name, func(t *testing.T) {
			if err := Absent(polyglotPrefix+s.Name, "../bin"); err != nil {
				t.Skip(err)
			}
			c := startWith(t, polyglotPrefix+s.Name, Options{Bin: "../bin"})
			if !s.Proxy {
				fill(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port("redis"))), requests)
			}
			transport := &http.Transport{MaxIdleConnsPerHost: clients}
			defer transport.CloseIdleConnections()
			client := http.Client{Transport: transport, Timeout: time.Minute}
			var wait sync.WaitGroup
			errs := make([]error, clients)
			begin := time.Now()
			for k := range clients {
				wait.Go(func() {
					for n := k; n < requests && errs[k] == nil; n += clients {
						errs[k] = rightly(&client, "http://"+c.Entry+string(c.AppendPath(nil, uint64(n))), n, s.Proxy) //nolint:gosec // small
					}
				})
			}
			wait.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%v\n%s", err, c.specs[0].proc.tail())
			}
			t.Logf("%d requests in %v", requests, time.Since(begin).Round(time.Millisecond))
			assert.NoError(t, c.Stop())
			gone(t, c)
		})
	}
}

// rightly asks about number n, and requires the right answer.
func rightly(client *http.Client, url string, n int, proxy bool) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	want := strconv.Itoa(n)
	if !proxy {
		want += fmt.Sprintf(" %d", -n)
	}
	if err == nil && string(body) != want {
		err = fmt.Errorf("%s: %s %q, want %q", url, resp.Status, body, want)
	}
	return err
}

// fill has redis hold another number under each key.
func fill(t *testing.T, addr string, n int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	w, r := bufio.NewWriter(c), bufio.NewReader(c)
	for i := range n {
		_, _ = fmt.Fprintf(w, "SET n:%d %d\r\n", i, -i)
	}
	require.NoError(t, w.Flush())
	for range n {
		if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
			t.Fatal(line, err)
		}
	}
}
