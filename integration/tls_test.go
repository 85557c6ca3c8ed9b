package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/span"
)

// Services that speak TLS: their spans have no names, and are linked all the same,
// whether a connection serves one request or many, after a whole handshake or a
// resumed one: nginx may read the end of a handshake and the first request at once.
// The last hop is plain, so that its path tells the request.
func TestTLS(t *testing.T) {
	t.Parallel()
	need(t, "nginx")
	st, s := newStack(t), newSink(t)
	cert, key := certificate(t, st)
	backend := testkit.FreePort(t)
	st.nginx("backend", "", "keepalive_requests 1000000;\n"+answer(loopback(backend)), loopback(backend))
	flags := []string{"--port", "backend=" + itoa(backend)}

	type way struct {
		version      string
		keep, reuse  bool // of connections and sessions towards the upstream
		plain, taken int  // ports
	}
	var ways []way
	var middlePort int
	// Sessions are resumed by tickets. A cache that nginx's processes share would have them wait
	// for its lock, and what is sent after that is not linked (docs/linking.md).
	common := fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; keepalive_requests 1000000;\n", cert, key)
	middle, proxy := common, common
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		port := testkit.FreePort(t)
		middlePort = port
		flags = append(flags, "--port", "middle="+itoa(port))
		middle += fmt.Sprintf(`
    upstream next%[4]d { server %[1]s; keepalive 64; keepalive_requests 1000000; }
    server {
        listen %[2]s ssl backlog=8192;
        ssl_protocols %[3]s;
        location / {
            proxy_pass http://next%[4]d;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }`, loopback(backend), loopback(port), version, port)
		for _, keep := range []bool{false, true} {
			for _, reuse := range []bool{false, true} {
				w := way{version, keep, reuse, testkit.FreePort(t), testkit.FreePort(t)}
				ways = append(ways, w)
				flags = append(flags, "--port", "proxy="+itoa(w.plain), "--port", "proxy="+itoa(w.taken))
				kept, header := "", `proxy_http_version 1.0;` // nginx's default
				if keep {
					kept, header = "keepalive 64; keepalive_requests 1000000;", `proxy_http_version 1.1; proxy_set_header Connection "";`
				}
				proxy += fmt.Sprintf(`
    upstream next%[1]d { server %[2]s; %[3]s }
    server {
        listen %[4]s backlog=8192;
        listen %[5]s ssl backlog=8192;
        ssl_protocols %[6]s;
        location / {
            proxy_pass https://next%[1]d;
            proxy_ssl_protocols %[6]s;
            proxy_ssl_session_reuse %[7]s;
            %[8]s
        }
    }`, w.plain, loopback(port), kept, loopback(w.plain), loopback(w.taken), version, onOff(reuse), header)
			}
		}
	}
	st.nginx("middle", "", middle, loopback(middlePort))
	st.nginx("proxy", "", proxy, loopback(ways[0].plain))
	a := trace(t, s, nil, flags...)

	check := func(t *testing.T, entry string, requests int, run func()) {
		t.Helper()
		before := s.count()
		run()
		m := a.settle()
		spans := s.since(before)
		tls := func(service string, kind span.Kind, below ...branch) branch {
			return branch{service: service, kind: kind, name: "tls", below: below}
		}
		want := tls("proxy", span.Client, tls("middle", span.Server,
			branch{service: "middle", kind: span.Client, name: "GET", below: []branch{{service: "backend", kind: span.Server, name: "GET"}}}))
		judge(t, spans, shapeOf(t, "nginx")) // for "none is wrong"
		wantBranches(t, spans, branch{service: "proxy", kind: span.Server, name: entry, below: []branch{want}}, m, requests, 0.999)
		wantNoErrors(t, spans)
	}
	requests := few(1000)
	for _, w := range ways {
		t.Run(fmt.Sprintf("upstream/%s/connections kept %s/sessions reused %s", w.version, onOff(w.keep), onOff(w.reuse)), func(t *testing.T) {
			check(t, "GET", requests, func() {
				send(t, load.Options{Addr: loopback(w.plain), Connections: 16, Requests: uint64(requests), AppendPath: numbered})
			})
		})
	}
	for _, w := range ways {
		if w.keep {
			continue
		}
		// Sessions of clients are resumed where those towards the upstream are.
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("entry/%s/connections kept %s/sessions reused %s", w.version, onOff(keep), onOff(w.reuse)), func(t *testing.T) {
				check(t, "tls", requests, func() { ask(t, "https://"+loopback(w.taken), 8, requests, keep, w.reuse) })
			})
		}
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// ask sends requests with numbers.
func ask(t *testing.T, base string, clients, requests int, keep, resume bool) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // made for this test
	if resume {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(clients)
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: !keep, MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testkit.Patient(30 * time.Second)}
	inParallel(t, clients, requests, func(n int) error { return asked(client.Get(fmt.Sprintf("%s/n/%d", base, n))) })
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
