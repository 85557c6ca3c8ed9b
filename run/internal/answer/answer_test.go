package answer

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWait(t *testing.T) {
	// Refuses everybody, and only comes after a while.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if url, err := soon(t, address); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody there: %q, %v", url, err)
	}
	late := make(chan *http.Server)
	go func() {
		time.Sleep(2 * interval)
		srv := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		})}
		go func() { _ = srv.ListenAndServe() }() // Close ends it
		late <- srv
	}()
	url, err := Wait(t.Context(), address)
	if err != nil || url != "http://"+address+"/" {
		t.Errorf("%q, %v", url, err)
	}
	_ = (<-late).Close()

	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	address = tls.Listener.Addr().String()
	if url, err := Wait(t.Context(), address); err != nil || url != "https://"+address+"/" {
		t.Errorf("with TLS: %q, %v", url, err)
	}
}

func soon(t *testing.T, address string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*interval)
	defer cancel()
	return Wait(ctx, address)
}
