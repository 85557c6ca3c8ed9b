package guard

import (
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

func convert(t testing.TB, plaintext bool, text string) error {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	converter := NewFactory(plaintext).Create(confmap.ConverterSettings{})
	return converter.Convert(t.Context(), confmap.NewFromStringMap(m))
}

func TestReceiversOpenToTheNetworkNeedTLS(t *testing.T) {
	for _, c := range []struct {
		name, config string
		refused      string // the key that the error names
	}{
		{"nothing", ``, ""},
		{"no receivers", `exporters: {otlp: {endpoint: "10.0.0.1:4317"}}`, ""},
		{"defaults", `receivers: {otlp: {protocols: {grpc: , http: }}}`, ""},
		{"loopback", `receivers: {zipkin: {endpoint: "127.0.0.1:9411"}}`, ""},
		{"all of 127", `receivers: {zipkin: {endpoint: "127.8.9.1:9411"}}`, ""},
		{"localhost", `receivers: {zipkin: {endpoint: "localhost:9411"}}`, ""},
		{"IPv6 loopback", `receivers: {zipkin: {endpoint: "[::1]:9411"}}`, ""},
		{"mapped loopback", `receivers: {zipkin: {endpoint: "[::ffff:127.0.0.1]:9411"}}`, ""},
		{"a unix socket", `receivers: {otlp: {protocols: {grpc: {transport: unix, endpoint: /run/tare.sock}}}}`, ""},
		{"all addresses", `receivers: {zipkin: {endpoint: "0.0.0.0:9411"}}`, "receivers::zipkin::endpoint"},
		{"no address", `receivers: {zipkin: {endpoint: ":9411"}}`, "receivers::zipkin::endpoint"},
		{"no port", `receivers: {zipkin: {endpoint: "10.1.2.3"}}`, "receivers::zipkin::endpoint"},
		{"IPv6", `receivers: {zipkin: {endpoint: "[::]:9411"}}`, "receivers::zipkin::endpoint"},
		{"a name", `receivers: {zipkin: {endpoint: "collector.example:9411"}}`, "receivers::zipkin::endpoint"},
		{"like localhost", `receivers: {zipkin: {endpoint: "localhost.example:9411"}}`, "receivers::zipkin::endpoint"},
		{"within protocols", `receivers: {otlp/b: {protocols: {grpc: {endpoint: "127.0.0.1:1"}, http: {endpoint: "10.0.0.1:2"}}}}`,
			"receivers::otlp/b::protocols::http::endpoint"},
		{"UDP has no TLS", `receivers: {jaeger: {protocols: {thrift_compact: {endpoint: "0.0.0.0:6831"}}}}`,
			"receivers::jaeger::protocols::thrift_compact::endpoint"},
		{"a certificate", `receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:1", tls: {cert_file: a, key_file: b}}}}}`, ""},
		{"a certificate in place", `receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:1", tls: {cert_pem: a, key_pem: b}}}}}`, ""},
		{"TLS without certificate", `receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:1", tls: {client_ca_file: a}}}}}`,
			"receivers::otlp::protocols::grpc::endpoint"},
		{"empty certificate", `receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:1", tls: {cert_file: ""}}}}}`,
			"receivers::otlp::protocols::grpc::endpoint"},
		{"another one's certificate", `receivers: {otlp: {protocols: {http: {endpoint: "0.0.0.0:2"}, grpc: {endpoint: "0.0.0.0:1", tls: {cert_file: a}}}}}`,
			"receivers::otlp::protocols::http::endpoint"},
		{"a coordinator", `extensions: {tare_retro/b: {endpoint: "0.0.0.0:4319"}}`, "extensions::tare_retro/b::endpoint"},
		{"a coordinator with a certificate", `extensions: {tare_retro: {endpoint: "0.0.0.0:4319", tls: {cert_file: a, key_file: b}}}`, ""},
		{"a coordinator on loopback", `extensions: {tare_retro: {endpoint: "127.0.0.1:4319"}}`, ""},
		{"another extension", `extensions: {health_check: {endpoint: "0.0.0.0:13133"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := convert(t, false, c.config)
			if c.refused == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrPlaintext) || !strings.HasPrefix(err.Error(), c.refused+": ") {
				t.Errorf("got %v, want one of %s", err, c.refused)
			}
			if err := convert(t, true, c.config); err != nil {
				t.Errorf("it was said to be meant, but: %v", err)
			}
		})
	}
}

func FuzzLoopback(f *testing.F) {
	for _, s := range []string{"127.0.0.1:1", "[::1]:1", "localhost", "0.0.0.0:1", ":1", "unix:/x", "::1", "a:b:c", "[::1%lo]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		if loopback(endpoint) && strings.HasPrefix(endpoint, "0.0.0.0") {
			t.Errorf("%q is said to be loopback", endpoint)
		}
	})
}
