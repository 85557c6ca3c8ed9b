package browser

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLocal(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		address, host string
		header        [2]string
		status        int
	}{
		{"127.0.0.1:1", "127.0.0.1:1", [2]string{}, 200},
		{"127.0.0.1:1", "localhost:1", [2]string{}, 200},
		{"[::1]:1", "[::1]:1", [2]string{}, 200},
		{"127.0.0.1:1", "evil.example:1", [2]string{}, 403},
		{"127.0.0.1:1", "localhost:1", [2]string{"Origin", "http://evil.example"}, 403},
		{"127.0.0.1:1", "localhost:1", [2]string{"Origin", "null"}, 403},
		{"127.0.0.1:1", "localhost:1", [2]string{"Origin", "http://localhost:1"}, 200},
		{"127.0.0.1:1", "localhost:1", [2]string{"Origin", "http://localhost:2"}, 403},
		{"127.0.0.1:1", "localhost:1", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"127.0.0.1:1", "localhost:1", [2]string{"Sec-Fetch-Site", "none"}, 200},
		{"10.0.0.1:1", "node.example:1", [2]string{}, 200},
	} {
		address, err := net.ResolveTCPAddr("tcp", c.address)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Host = c.host
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		Local(address, ok).ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, "%+v", c)
	}
}
