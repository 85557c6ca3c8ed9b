package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkRequest holds the server's time too: compare it with itself only.
func BenchmarkRequest(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(hello))
	defer srv.Close()
	b.ReportAllocs()
	if _, err := Run(context.Background(), Options{
		Addr: srv.Listener.Addr().String(), Connections: 8, Requests: uint64(b.N), AppendPath: appendPath,
	}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkParseHead(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Fri, 21 Nov 2025 10:00:00 GMT\r\n" +
		"Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nhello world!\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := parseHead(in); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
