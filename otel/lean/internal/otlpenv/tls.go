package otlpenv

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig returns nil if no variable asks for one.
func tlsConfig() (*tls.Config, error) {
	var config *tls.Config
	if v, ok := lookup("CERTIFICATE"); ok {
		pem, err := os.ReadFile(v.Value)
		if err != nil {
			return nil, v.Errorf("%w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, v.Errorf("%s holds no certificate in PEM form", v.Value)
		}
		config = &tls.Config{RootCAs: pool}
	}
	certificate, key, err := clientPair()
	if err != nil || certificate.Value == "" {
		return config, err
	}
	pair, err := tls.LoadX509KeyPair(certificate.Value, key.Value)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", certificate.Name, key.Name, err)
	}
	if config == nil {
		config = &tls.Config{}
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// clientPair: certificate and key come from the same level, since one for
// traces does not fit the other's generic one. Both are empty if neither is set.
func clientPair() (certificate, key Variable, err error) {
	certificate, hasCertificate := lookup("CLIENT_CERTIFICATE")
	key, hasKey := lookup("CLIENT_KEY")
	if !hasCertificate && !hasKey {
		return Variable{}, Variable{}, nil
	}
	if hasCertificate && hasKey && certificate.Traces == key.Traces {
		return certificate, key, nil
	}
	level := prefix
	if certificate.Traces && hasCertificate || key.Traces && hasKey {
		level += "TRACES_"
	}
	return Variable{}, Variable{}, fmt.Errorf("%[1]sCLIENT_CERTIFICATE and %[1]sCLIENT_KEY: only one of them is set: set both or neither", level)
}
