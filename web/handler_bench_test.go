package web_test

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tare-trace/tare/web"
)

func BenchmarkTrace100000(b *testing.B) {
	h := web.New(web.Options{Store: open(b, large(100_000)), Timeout: time.Hour})
	for name, path := range map[string]string{
		"whole":  "/api/v1/traces/0a000000000000000000000000000001",
		"bare":   "/api/v1/traces/0a000000000000000000000000000001?attributes=false",
		"span":   "/api/v1/traces/0a000000000000000000000000000001/spans/0000000001869e01",
		"jaeger": "/api/traces/0a000000000000000000000000000001",
	} {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(name+"/"+encoding, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequest("GET", "http://localhost"+path, nil)
					r.Header.Set("Accept-Encoding", encoding)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					n, _ := io.Copy(io.Discard, w.Body)
					if w.Code != 200 {
						b.Fatal(w.Code)
					}
					b.SetBytes(n)
				}
			})
		}
	}
}
