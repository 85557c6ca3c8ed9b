package integration

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tare-trace/tare/internal/testkit"
)

// ownLoopback is an address that no other test uses, for examples whose ports
// are the standard ones.
func ownLoopback() net.IP {
	return net.IPv4(127, byte(1+rand.IntN(254)), byte(1+rand.IntN(254)), byte(1+rand.IntN(254)))
}

// deploy/collector/mtls.yaml: only who shows a certificate of the own authority is
// let in, by gRPC and by HTTP; who is not, is logged with the address. What goes
// out shows a certificate, too.
func TestCollectorMTLS(t *testing.T) {
	t.Parallel()
	own, foreign := newAuthority(t, "own"), newAuthority(t, "foreign")
	ip, dir := ownLoopback(), t.TempDir()
	later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	server := own.issue(t, "collector", later, ip, net.IPv4(127, 0, 0, 1))
	own.write(t, dir, server)
	// bcrypt of "secret".
	if err := os.WriteFile(filepath.Join(dir, "page.htpasswd"),
		[]byte("reader:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := newGRPCSinkAt(t, loopback(0), grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{server},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: own.pool,
	})))
	d := collectFile(t, "", "../deploy/collector/mtls.yaml",
		[]string{"TARE_LISTEN=" + ip.String(), "TARE_CERTS=" + dir, "TARE_BACKEND=" + backend.address},
		"--set", "extensions.tare_store.directory="+t.TempDir(),
		"--set", "service.telemetry.metrics.level=none")

	clients := []struct {
		name   string
		certs  []tls.Certificate
		plain  bool
		let    bool
		reason string // in the log
	}{
		{"the right certificate", []tls.Certificate{own.issue(t, "agent", later)}, false, true, ""},
		{"no certificate", nil, false, false, "client didn't provide a certificate"},
		{"another authority's", []tls.Certificate{foreign.issue(t, "agent", later)}, false, false, "unknown authority"},
		{"an expired one", []tls.Certificate{own.issue(t, "agent", past)}, false, false, "expired"},
		{"no TLS", nil, true, false, "does not look like a TLS handshake"},
	}
	for i, c := range clients {
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: own.pool, Certificates: c.certs}
		if len(c.certs) > 0 { // whatever authorities the server names
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.certs[0], nil }
		}
		t.Run("gRPC "+c.name, func(t *testing.T) {
			creds := credentials.NewTLS(config)
			if c.plain {
				creds = nil
			}
			before := strings.Count(d.Log.String(), c.reason)
			err := export(t.Context(), dialOTLP(t, ip.String()+":4317", creds), someTraces(uint64(2*i)+1, 1, 3))
			if (err == nil) != c.let {
				t.Errorf("let in: %t (%v), want %t", err == nil, err, c.let)
			}
			wantLogged(t, d, c.reason, before, "127.0.0.1:", c.let)
		})
		t.Run("HTTP "+c.name, func(t *testing.T) {
			body, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(someTraces(uint64(2*i)+2, 1, 3))
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			scheme := "https"
			if c.plain {
				scheme = "http"
			}
			reason := c.reason
			if c.plain {
				reason = "HTTP request to an HTTPS server"
			}
			before := strings.Count(d.Log.String(), reason)
			resp, err := (&http.Client{Transport: transport}).Post(
				fmt.Sprintf("%s://%s:4318/v1/traces", scheme, ip), "application/x-protobuf", bytes.NewReader(body))
			let := false
			if err == nil {
				let = resp.StatusCode == http.StatusOK
				_ = resp.Body.Close()
			}
			if let != c.let {
				t.Errorf("let in: %t (%v), want %t", let, err, c.let)
			}
			wantLogged(t, d, reason, before, "127.0.0.1:", c.let)
		})
	}
	testkit.Until(t, time.Minute, "what was let in arrived", func() bool { return backend.count() == 6 })
}

// wantLogged waits for one more line with the reason and the peer's address.
func wantLogged(t *testing.T, d *daemon, reason string, before int, from string, let bool) {
	t.Helper()
	if let {
		return
	}
	testkit.Until(t, deadline, "the refusal is logged: "+reason, func() bool {
		log := d.Log.String()
		if strings.Count(log, reason) <= before {
			return false
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, reason) && strings.Contains(line, from) {
				return true
			}
		}
		return false
	})
}

// Names and passwords, and tokens, at the receivers: refused requests are logged
// with the address they came from.
func TestCollectorLogsRefusedRequests(t *testing.T) {
	t.Parallel()
	sink := newGRPCSink(t)
	grpcAddr, httpAddr := loopback(testkit.FreePort(t)), loopback(testkit.FreePort(t))
	d := collect(t, fmt.Sprintf(`
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q, auth: {authenticator: bearertokenauth}}
      http: {endpoint: %q, auth: {authenticator: basicauth}}
exporters:
  otlp_grpc: {endpoint: %q, tls: {insecure: true}}
extensions:
  bearertokenauth: {token: open-sesame}
  basicauth: {htpasswd: {inline: "agent:secret"}}
service:
  extensions: [bearertokenauth, basicauth]
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_grpc]}`, grpcAddr, httpAddr, sink.address))

	body, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(someTraces(1, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		password string
		want     int
	}{{"secret", http.StatusOK}, {"wrong", http.StatusUnauthorized}, {"", http.StatusUnauthorized}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+httpAddr+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-protobuf")
		if c.password != "" {
			req.SetBasicAuth("agent", c.password)
		}
		before := strings.Count(d.Log.String(), "request refused")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("password %q: %s, want %d", c.password, resp.Status, c.want)
		}
		wantLogged(t, d, "request refused", before, "127.0.0.1", c.want == http.StatusOK)
	}
	before := strings.Count(d.Log.String(), "request refused")
	if err := export(t.Context(), dialOTLP(t, grpcAddr, nil), someTraces(2, 1, 3)); err == nil {
		t.Error("a request without a token was taken")
	}
	wantLogged(t, d, "request refused", before, "127.0.0.1", false)
	// Each is in a line, or in the number of those that have none: nobody fills the disk.
	refused := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+httpAddr+"/v1/traces", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	for range 50 {
		refused()
	}
	lines, unlogged := 0, 0
	testkit.Until(t, 3*deadline, "53 refusals are logged or counted", func() bool {
		refused() // a line a second may be written
		lines, unlogged = strings.Count(d.Log.String(), "request refused"), 0
		for _, n := range regexp.MustCompile(`"unlogged": (\d+)`).FindAllStringSubmatch(d.Log.String(), -1) {
			k, err := strconv.Atoi(n[1])
			if err != nil {
				t.Fatal(err)
			}
			unlogged += k
		}
		return lines+unlogged >= 53
	})
	if lines >= 53 {
		t.Errorf("%d lines of 53 refusals", lines)
	}
	if strings.Contains(d.Log.String(), "wrong") {
		t.Error("a password is in the log")
	}
	testkit.Until(t, deadline, "what was let in arrived", func() bool { return sink.count() == 3 })
}
