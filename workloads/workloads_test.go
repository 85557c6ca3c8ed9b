package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/workloads/internal/servicetest"
)

func TestMain(m *testing.M) { servicetest.Run(m) }

// need skips a test whose programs are not installed; CI must have them.
func need(t *testing.T, chains ...string) {
	t.Helper()
	missing, err := Missing(chains...)
	require.NoError(t, err)
	if len(missing) == 0 {
		return
	}
	servicetest.Refuse(t, fmt.Sprintf("not installed: %v", missing))
}

func start(t *testing.T, name string) *Chain { return startWith(t, name, Options{}) }

func startWith(t *testing.T, name string, opts Options) *Chain {
	t.Helper()
	need(t, name)
	c, err := Start(t.Context(), name, opts)
	require.NoError(t, err)
	return stopLater(t, c)
}

func stopLater(t *testing.T, c *Chain) *Chain {
	t.Cleanup(func() { assert.NoError(t, c.Stop(), "stop") })
	return c
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

func get(t *testing.T, c *Chain, path string) (int, string) {
	t.Helper()
	return getFrom(t, c.Entry, path)
}

func getFrom(t *testing.T, host, path string) (int, string) {
	t.Helper()
	resp, err := client.Get("http://" + host + path)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// gone checks that a stopped chain left nothing behind.
func gone(t *testing.T, c *Chain) {
	t.Helper()
	for _, s := range c.Services {
		for _, pid := range s.PIDs {
			assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d of %s", pid, s.Name)
		}
		if conn, err := net.Dial("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))); err == nil {
			_ = conn.Close()
			t.Errorf("%s still listens", s.Name)
		}
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory %s: %v", c.Dir, err)
	}
}

func TestNginxChain(t *testing.T) {
	c := start(t, "nginx")
	path := string(c.AppendPath([]byte("x"), 17))
	assert.Equal(t, "x/n/17", path, "path")
	if status, body := get(t, c, path[1:]); status != 200 || body != "hello world!\n" {
		t.Errorf("%d %q", status, body)
	}
	for i, want := range []string{"proxy", "backend"} {
		s := c.Services[i]
		if s.Name != want || len(s.PIDs) != 3 || !strings.HasSuffix(s.Exe, "/nginx") {
			t.Errorf("service %d: %+v", i, s)
		}
	}
	assert.NoError(t, c.Stop())
	gone(t, c)
}

func TestShopChain(t *testing.T) {
	c := start(t, "shop")
	for n := range uint64(3) {
		status, body := get(t, c, string(c.AppendPath(nil, n)))
		want := fmt.Sprintf(`{"item": %d, "price": null, "cached": false, "stock": 7}`, n)
		if status != 200 || strings.TrimSpace(body) != want {
			t.Errorf("%d %q", status, body)
		}
	}
	// What is in the stores is what comes out.
	tell(t, c, "redis", "SET item:5 19.90\r\n", "+OK")
	tell(t, c, "memcached", "set item:5 0 0 1\r\nx\r\n", "STORED")
	if _, body := get(t, c, "/item/5"); !strings.Contains(body, `"price": "19.90", "cached": true`) {
		t.Errorf("body %q", body)
	}
	for _, path := range []string{"/", "/item/", "/item/x", "/item/1/2"} {
		if status, _ := get(t, c, path); status != 404 {
			t.Errorf("%s: status %d", path, status)
		}
	}
	var names []string
	for _, s := range c.Services {
		names = append(names, s.Name)
	}
	if want := []string{"proxy", "shop", "redis", "memcached", "stock"}; !slices.Equal(names, want) {
		t.Errorf("services")
	}
	assert.NoError(t, c.Stop())
	gone(t, c)
}

// tell sends a line to a store and checks how its answer begins.
func tell(t *testing.T, c *Chain, store, line, want string) {
	t.Helper()
	i := slices.IndexFunc(c.Services, func(s Service) bool { return s.Name == store })
	conn, err := net.Dial("tcp", net.JoinHostPort(c.Services[i].Host, strconv.Itoa(c.Services[i].Port)))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, line); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := conn.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), want) {
		t.Fatalf("%q, %v", b[:n], err)
	}
}

func TestRestartOfOneService(t *testing.T) {
	c := start(t, "shop")
	if status, _ := get(t, c, "/item/1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	before := c.Services[1]
	require.NoError(t, c.Restart(t.Context(), "shop"))
	after := c.Services[1]
	if after.Port != before.Port || after.PIDs[0] == before.PIDs[0] {
		t.Errorf("%+v, then %+v", before, after)
	}
	if status, _ := get(t, c, "/item/2"); status != 200 {
		t.Errorf("status %d", status)
	}
	assert.Error(t, c.Restart(t.Context(), "nobody"), "restarted a service that is not there")
}

func TestStoresThatEndAreReportedAndReconnected(t *testing.T) {
	c := start(t, "shop")
	if status, _ := get(t, c, "/item/1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	require.NoError(t, syscall.Kill(c.Services[2].PIDs[0], syscall.SIGKILL))
	<-c.specs[2].proc.done
	if status, _ := get(t, c, "/item/2"); status != 502 {
		t.Errorf("without redis: status %d", status)
	}
	require.NoError(t, c.Restart(t.Context(), "redis"))
	// Each thread of the shop finds out by itself; nginx' workers have one each by now, at most.
	status := 0
	for range 3 {
		if status, _ = get(t, c, "/item/3"); status == 200 {
			return
		}
	}
	t.Errorf("with redis again: status %d", status)
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	need(t, "nginx")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, "nginx", Options{Workers: -1}); err == nil {
		t.Error("no error")
	}
	if _, err := Start(ctx, "none", Options{}); err == nil || !strings.Contains(err.Error(), "counter, hotel, nginx, shop, thesis, thesis-2, thesis-3") {
		t.Errorf("unknown chain: %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRequirements(t *testing.T) {
	for _, name := range []string{"counter", "hotel", "nginx", "shop"} {
		r, err := Requirements(name)
		if err != nil || len(r) == 0 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, name := range []string{"thesis", "command"} {
		if r, err := Requirements(name); err != nil || len(r) != 0 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := Requirements("none"); err == nil {
		t.Error("unknown chain: no error")
	}
	need(t, "shop")
	var said strings.Builder
	needed, err := Requirements("nginx", "shop", "thesis", "command")
	require.NoError(t, err)
	if err := Ensure(t.Context(), &said, needed); err != nil || said.Len() != 0 {
		t.Errorf("nothing was missing: %v, %q", err, said.String())
	}
}

func TestShapes(t *testing.T) {
	assert.Equal(t, "hotel nginx shop thesis-2 thesis-3", strings.Join(WithShape(), " "), "chains with a shape")
	if truth, err := TruthOf("shop"); err != nil || truth(3).String() != "proxy server /item/" {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"thesis", "none"} {
		if _, err := TruthOf(name); err == nil || !strings.Contains(err.Error(), "there are hotel, nginx, shop, thesis-2, thesis-3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
