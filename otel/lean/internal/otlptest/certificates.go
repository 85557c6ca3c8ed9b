package otlptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files in PEM form, of an authority made for one test, and a
// server's configuration that the authority vouches for.
type Certificates struct {
	Authority         string
	Client, ClientKey string
	Server            tls.Config // for 127.0.0.1, ::1 and localhost
	Pool              *x509.CertPool
}

// Mutual returns the server's configuration that also asks for a client
// certificate of the same authority.
func (c *Certificates) Mutual() *tls.Config {
	config := c.Server.Clone()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, c.Pool
	return config
}

// NewCertificates makes them anew.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey := newKey(t)
	authorityDER := sign(t, authority, authority, authorityKey, authorityKey)
	issue := func(serial int64, usage x509.ExtKeyUsage) (der []byte, key *ecdsa.PrivateKey) {
		key = newKey(t)
		return sign(t, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		}, authority, key, authorityKey), key
	}
	c := &Certificates{Pool: x509.NewCertPool()}
	c.Authority = writePEM(t, filepath.Join(dir, "authority.pem"), "CERTIFICATE", authorityDER)
	parsed, err := x509.ParseCertificate(authorityDER)
	if err != nil {
		t.Fatal(err)
	}
	c.Pool.AddCert(parsed)

	serverDER, serverKey := issue(2, x509.ExtKeyUsageServerAuth)
	c.Server.Certificates = []tls.Certificate{{Certificate: [][]byte{serverDER}, PrivateKey: serverKey}}

	clientDER, clientKey := issue(3, x509.ExtKeyUsageClientAuth)
	keyDER, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	c.Client = writePEM(t, filepath.Join(dir, "client.pem"), "CERTIFICATE", clientDER)
	c.ClientKey = writePEM(t, filepath.Join(dir, "client.key"), "PRIVATE KEY", keyDER)
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t testing.TB, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
