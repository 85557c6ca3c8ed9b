package page_test

import (
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tare-trace/tare/store"
	"github.com/tare-trace/tare/web"
)

// Who may see some services only is told that spans are left out, and not that they were lost.
func TestLeftOut(t *testing.T) {
	w := newWriter(5)
	id := w.trace(time.Now(), call{service: "shop", name: "GET /", kind: server, took: 9000, id: pcommon.SpanID{1}, calls: []call{
		{service: "pay", name: "charge", kind: server, at: 1000, took: 5000, id: pcommon.SpanID{2}, calls: []call{
			{service: "shop", name: "notify", kind: server, at: 1000, took: 1000, id: pcommon.SpanID{3}},
		}},
	}}, nil, "")
	_, s, end, err := serve(t.TempDir(), nil, w.td)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	all := web.New(web.Options{Store: s})
	reader := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		all.ServeHTTP(w, r.WithContext(store.WithScope(r.Context(), &store.Scope{Services: []string{"shop"}})))
	}))
	t.Cleanup(func() {
		reader.CloseClientConnections()
		reader.Close()
	})
	p := open(t, reader.URL, "#/trace/"+id.String(), 1280, 900)
	p.wait("the waterfall is drawn", "document.querySelectorAll('.row:not([hidden])').length === 2")
	page := strings.ReplaceAll(p.text("main"), "\u00a0", " ")
	if !strings.Contains(page, "1 span left out") || !strings.Contains(page, "parent left out") || strings.Contains(page, "parent missing") || strings.Contains(page, "charge") {
		t.Error(page)
	}
	p = open(t, reader.URL, "#/health", 1280, 900)
	p.wait("the store is there", "document.body.innerText.includes('You may see some services only')")
	if text := strings.ReplaceAll(p.text("main"), "\u00a0", " "); strings.Contains(text, "On disk") || strings.Contains(text, "pay") {
		t.Error(text)
	}
}
