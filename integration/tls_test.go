package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tare-trace/tare/span"
)

// Services that speak TLS: their spans have no names, and are linked all the
// same. The last hop is plain, so that its path tells the request.
func TestTLS(t *testing.T) {
	need(t)
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		t.Run(version, func(t *testing.T) {
			st, s := newStack(t), newSink(t)
			cert, key := certificate(t, st)
			proxy, middle, backend := freePort(t), freePort(t), freePort(t)
			secure := fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols %s; proxy_ssl_protocols %[3]s;", cert, key, version)
			st.nginx("backend", "", answer(loopback(backend)), loopback(backend))
			st.nginx("middle", "", secure+secured(loopback(middle), "http", loopback(backend)), loopback(middle))
			st.nginx("proxy", "", secure+secured(loopback(proxy), "https", loopback(middle)), loopback(proxy))
			a := trace(t, s, nil, "--port", "proxy="+itoa(proxy), "--port", "middle="+itoa(middle), "--port", "backend="+itoa(backend))
			const clients, each = 8, 250
			ask(t, "https://"+loopback(proxy), clients, each)
			m := a.settle()
			// nginx may read the end of a handshake and the first request at once (TLS 1.3,
			// and 1.2 where a session is resumed), and may answer the handshake before the
			// request: from outside these are one message. So the first request of each
			// connection, to the proxy and to the middle, may be taken for the handshake or
			// come out without its end (docs/linking.md). No other may.
			const firsts = 2 * clients
			checkTLS(t, s.all(), m, clients*each, firsts)
		})
	}
}

func secured(listen, scheme, upstream string) string {
	return fmt.Sprintf(`
    upstream next { server %s; keepalive 64; }
    server {
        listen %s ssl backlog=8192;
        location / {
            proxy_pass %s://next;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }`, upstream, listen, scheme)
}

// ask sends requests with numbers over kept connections.
func ask(t *testing.T, base string, clients, each int) {
	t.Helper()
	var wait sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		wait.Go(func() {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // made for this test
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			for n := range each {
				resp, err := client.Get(fmt.Sprintf("%s/n/%d", base, i*each+n))
				if err != nil {
					errs[i] = err
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					errs[i] = fmt.Errorf("status %d, %w", resp.StatusCode, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func checkTLS(t *testing.T, spans []span.Span, m metrics, requests, firsts int) {
	t.Helper()
	// proxy server, proxy client, middle server: TLS; middle client, backend server: plain.
	tlsSpan := func(service string, kind span.Kind, below ...branch) branch {
		return branch{service: service, kind: kind, name: "tls", below: below}
	}
	want := tlsSpan("proxy", span.Server, tlsSpan("proxy", span.Client, tlsSpan("middle", span.Server,
		branch{service: "middle", kind: span.Client, name: "GET", below: []branch{
			{service: "backend", kind: span.Server, name: "GET"}}})))
	judge(t, spans, shapeOf(t, "nginx")) // for "none is wrong"
	wantBranches(t, spans, want, m, requests, 0.999*float64(requests-firsts)/float64(requests))
}

func certificate(t *testing.T, st *stack) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tare test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return st.file("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		st.file("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}
