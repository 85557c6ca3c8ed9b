package export

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestProtocol(t *testing.T) {
	for _, tc := range []struct{ set, traces, general, want string }{
		{"", "", "", HTTPProtobuf},
		{"", "", "grpc", GRPC},
		{"", "http/protobuf", "grpc", HTTPProtobuf},
		{"", " grpc ", "http/protobuf", GRPC},
		{"grpc", "http/protobuf", "http/protobuf", GRPC},
		{"", "", "http/json", "http/json"},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", tc.traces)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", tc.general)
		cfg, err := Config{Protocol: tc.set, Loss: &losses{}}.withDefaults()
		if err != nil || cfg.Protocol != tc.want {
			t.Errorf("%+v: %q, %v", tc, cfg.Protocol, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no loss counter":      {Protocol: GRPC},
		"JSON":                 {Protocol: "http/json", Loss: &losses{}},
		"unknown protocol":     {Protocol: "udp", Loss: &losses{}},
		"endpoint not a URL":   {Endpoint: "localhost:4317", Loss: &losses{}},
		"endpoint unparseable": {Endpoint: "http://[::1", Loss: &losses{}},
		"endpoint no host":     {Endpoint: "http://", Loss: &losses{}},
	} {
		if _, err := New(t.Context(), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.HasPrefix(name, "JSON") && !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEndpointPath(t *testing.T) {
	for _, tc := range []struct{ protocol, endpoint, want string }{
		{HTTPProtobuf, "http://h:4318", "http://h:4318/v1/traces"},
		{HTTPProtobuf, "https://h:4318/", "https://h:4318/v1/traces"},
		{HTTPProtobuf, "https://h/otlp", "https://h/otlp"},
		{GRPC, "http://h:4317", "http://h:4317"},
		{GRPC, "", ""},
	} {
		got, err := endpointURL(Config{Protocol: tc.protocol, Endpoint: tc.endpoint})
		if err != nil || got != tc.want {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
}

func TestLimitsFromEnvironment(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1000")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5000")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "250")
	cfg, err := Config{Loss: &losses{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MaxQueue != 1000 || cfg.MaxBatch != 1000 || cfg.FlushInterval != 250*time.Millisecond {
		t.Errorf("%+v", cfg)
	}
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "soon")
	cfg, err = Config{Loss: &losses{}, MaxBatch: 7}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MaxQueue != 16384 || cfg.MaxBatch != 7 || cfg.FlushInterval != time.Second {
		t.Errorf("%+v", cfg)
	}
}
