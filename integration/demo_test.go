package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
)

// What `make demo` shows: one trace, the tables of fidelity and cost; then the shop's
// traces and its map on the page, until Ctrl-C, and nothing left behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached", "nginx", "python3")
	tmp := t.TempDir()
	w := &whole{page: loopback(testkit.FreePort(t))}
	w.Child = testkit.Spawn(t, "tare demo", os.Interrupt, 30*time.Second, append(os.Environ(), "TMPDIR="+tmp),
		tare, "demo", "--chain", "shop", "--rounds", "1", "--window", "1s", "--requests", "200", "--page", w.page, "--no-install")
	w.announced(2 * time.Minute)
	for _, line := range []string{
		`   └─ shop +server GET /item/\d+ .*`, `      │  └─ redis +server GET item:\d+ .*`,
		`requests +200`, `failed +0`, `complete +200 +100%`, `wrong +0`, `machine CPU per request, µs .*`, `recv +\d+ .*`,
	} {
		if !regexp.MustCompile("(?m)^" + line + "$").MatchString(w.Log.String()) {
			t.Errorf("no line %q in:\n%s", line, w.Log)
		}
	}
	testkit.Until(t, time.Minute, "the shop's traces are there, failed ones among them", func() bool {
		return len(w.traces("state=complete&service=shop")) > 30 && len(w.traces("status=error&service=proxy")) > 0
	})
	var shop struct {
		Edges []struct{ From, To string }
	}
	if !w.get("/api/v1/map?last=1h", &shop) || len(shop.Edges) != 4 {
		t.Errorf("map %+v, want proxy to shop, and shop to redis, memcached and stock", shop)
	}
	if broken := w.traces("state=incomplete"); len(broken) > 0 {
		t.Errorf("%d traces are incomplete, such as %+v", len(broken), broken[0])
	}
	w.Stop()
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
