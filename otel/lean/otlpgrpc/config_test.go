package otlpgrpc_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
	"github.com/tare-trace/tare/otel/lean/otlpgrpc"
)

func TestWrongVariables(t *testing.T) {
	const p = "OTEL_EXPORTER_OTLP_"
	for name, value := range map[string]string{
		"ENDPOINT":           "collector",
		"TRACES_ENDPOINT":    "http://user:secret@localhost:4317",
		"HEADERS":            "secret",
		"TRACES_HEADERS":     "grpc-timeout=secret",
		"TIMEOUT":            "10s",
		"COMPRESSION":        "snappy",
		"INSECURE":           "on",
		"CERTIFICATE":        filepath.Join(t.TempDir(), "missing"),
		"CLIENT_CERTIFICATE": "without a key",
		"TRACES_CLIENT_KEY":  "without a certificate",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(p+name, value)
			_, err := otlpgrpc.New()
			assert.ErrorContains(t, err, p+name)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v shows a secret", err)
			}
		})
	}
}

func TestWrongOptions(t *testing.T) {
	for want, option := range map[string]otlpgrpc.Option{
		"use WithEndpointURL":     otlpgrpc.WithEndpoint("http://localhost:4317"),
		"want host:port":          otlpgrpc.WithEndpoint(""),
		"must begin with http":    otlpgrpc.WithEndpointURL("localhost:4317"),
		"control character":       otlpgrpc.WithHeaders(map[string]string{"a": "b\r\nc: d"}),
		"name of gRPC metadata":   otlpgrpc.WithHeaders(map[string]string{"a!": "c"}),
		"printable ASCII":         otlpgrpc.WithHeaders(map[string]string{"a": "é"}),
		"set by gRPC":             otlpgrpc.WithHeaders(map[string]string{"Content-Type": "x"}),
		"WithTimeout(-1s)":        otlpgrpc.WithTimeout(-time.Second),
		"WithCompression(7)":      otlpgrpc.WithCompression(7),
		`WithCompressor("zstd")`:  otlpgrpc.WithCompressor("zstd"),
		"negative time":           otlpgrpc.WithRetry(otlpgrpc.RetryConfig{MaxInterval: -1}),
		"WithGRPCConn(nil)":       otlpgrpc.WithGRPCConn(nil),
		"WithTLSCredentials(nil)": otlpgrpc.WithTLSCredentials(nil),
		`endpoint "dns://%zz/x"`:  otlpgrpc.WithEndpoint("dns://%zz/x"),
	} {
		if _, err := otlpgrpc.New(option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestUserConnectionStaysOpen(t *testing.T) {
	c := newCollector(t, nil)
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	e, err := otlpgrpc.New(otlpgrpc.WithEndpoint("nowhere.invalid:1"), otlpgrpc.WithGRPCConn(conn))
	require.NoError(t, err)
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, e.Shutdown(t.Context()))
	again := newExporter(t, otlpgrpc.WithGRPCConn(conn), otlpgrpc.WithRetry(quick))
	if _, err := again.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
		t.Errorf("after Shutdown the user's connection: %v", err)
	}
}

func TestDialOptionWins(t *testing.T) {
	c := newCollector(t, nil)
	e := newExporter(t, to(c, otlpgrpc.WithDialOption(grpc.WithUserAgent("mine/1")))...)
	if _, err := e.Export(t.Context(), otlptest.Request(t, 1), 1); err != nil {
		t.Fatal(err)
	}
	if agent := c.requests()[0].metadata.Get("user-agent")[0]; !strings.HasPrefix(agent, "mine/1") {
		t.Errorf("user-agent %q", agent)
	}
}
