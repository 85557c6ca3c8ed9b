package otlpenv_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tare-trace/tare/otel/lean/internal/otlpenv"
	"github.com/tare-trace/tare/otel/lean/internal/otlptest"
)

func TestMain(m *testing.M) {
	otlptest.ClearEnvironment()
	os.Exit(m.Run())
}

const p = "OTEL_EXPORTER_OTLP_"

func setAll(t *testing.T, env map[string]string) {
	t.Helper()
	for name, value := range env {
		t.Setenv(p+name, value)
	}
}

func TestNothingSet(t *testing.T) {
	t.Setenv(p+"ENDPOINT", " ")
	got, err := otlpenv.Read()
	if err != nil || !reflect.DeepEqual(got, otlpenv.Settings{}) {
		t.Errorf("%+v, %v: an empty value counts as unset", got, err)
	}
}

func TestTracesWin(t *testing.T) {
	setAll(t, map[string]string{
		"ENDPOINT": "http://all", "TRACES_ENDPOINT": "http://traces",
		"INSECURE": "false", "TRACES_INSECURE": "True",
		"HEADERS": "a=1,b=2", "TRACES_HEADERS": "c=x%20y%2Cz , D = 4=5 ,",
		"TIMEOUT": "1", "TRACES_TIMEOUT": "2500",
		"COMPRESSION": "none", "TRACES_COMPRESSION": "gzip",
	})
	got, err := otlpenv.Read()
	require.NoError(t, err)
	assert.Equal(t, (otlpenv.Variable{Name: p + "TRACES_ENDPOINT", Value: "http://traces", Traces: true}), *got.Endpoint, "endpoint")
	if want := map[string]string{"c": "x y,z", "D": "4=5"}; !reflect.DeepEqual(got.Headers, want) {
		t.Errorf("headers %v, want %v", got.Headers, want)
	}
	if !*got.Insecure || *got.Timeout != 2500*time.Millisecond || !*got.Gzip || got.TLS != nil {
		t.Errorf("%+v", got)
	}
}

func TestWrongValuesNameTheVariable(t *testing.T) {
	dir := t.TempDir()
	certs := otlptest.NewCertificates(t)
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	for name, env := range map[string]map[string]string{
		"INSECURE":                  {"INSECURE": "yes"},
		"TRACES_INSECURE":           {"TRACES_INSECURE": "1"},
		"HEADERS":                   {"HEADERS": "secret"},
		"TRACES_HEADERS":            {"TRACES_HEADERS": "k=secret%0Aforged: 1"},
		"TIMEOUT":                   {"TIMEOUT": "10s"},
		"TRACES_TIMEOUT":            {"TRACES_TIMEOUT": "-1"},
		"COMPRESSION":               {"COMPRESSION": "zstd"},
		"CERTIFICATE":               {"CERTIFICATE": filepath.Join(dir, "missing.pem")},
		"TRACES_CERTIFICATE":        {"TRACES_CERTIFICATE": empty},
		"CLIENT_CERTIFICATE":        {"CLIENT_KEY": certs.ClientKey},
		"TRACES_CLIENT_CERTIFICATE": {"TRACES_CLIENT_KEY": certs.ClientKey, "CLIENT_CERTIFICATE": certs.Client, "CLIENT_KEY": certs.ClientKey},
		"TRACES_CLIENT_KEY":         {"TRACES_CLIENT_CERTIFICATE": certs.Client, "CLIENT_KEY": certs.ClientKey},
		"CLIENT_KEY":                {"CLIENT_CERTIFICATE": certs.Client, "CLIENT_KEY": empty},
	} {
		t.Run(name, func(t *testing.T) {
			setAll(t, env)
			_, err := otlpenv.Read()
			assert.ErrorContains(t, err, p+name)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v shows the value of a header", err)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		setAll(t, map[string]string{"TIMEOUT": "soon", "COMPRESSION": "some"})
		_, err := otlpenv.Read()
		if err == nil || !strings.Contains(err.Error(), "TIMEOUT") || !strings.Contains(err.Error(), "COMPRESSION") {
			t.Errorf("error %v, want one that names both", err)
		}
	})
}

func TestCertificates(t *testing.T) {
	certs := otlptest.NewCertificates(t)
	setAll(t, map[string]string{"CERTIFICATE": certs.Authority, "CLIENT_CERTIFICATE": certs.Client, "CLIENT_KEY": certs.ClientKey})
	got, err := otlpenv.Read()
	require.NoError(t, err)
	if got.TLS == nil || got.TLS.RootCAs == nil || len(got.TLS.Certificates) != 1 {
		t.Errorf("TLS %+v", got.TLS)
	}
}

func TestParseURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"http://localhost:4318": true, "https://h/a%2Fb": true, "http://[::1]:4318/": true,
		"localhost:4318": false, "127.0.0.1:4318": false, "ftp://h": false, "http://": false, "http://:4318": false,
		"http://user:secret@h": false, "http://h/?secret=1": false, "http://h/?": false, "http://h/#x": false, "http://h/%zz": false,
		"http://u:secret@h:x": false,
	} {
		_, err := otlpenv.ParseURL(text)
		if (err == nil) != ok {
			t.Errorf("%q: error %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v shows a password", text, err)
		}
	}
}

func FuzzParseHeaders(f *testing.F) {
	for _, seed := range []string{"", "a=1", "a=1,b=%20", "=", "a", ",,", "a=%zz", "é=1", "a=\x00", "a==,b=\t1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		headers, err := otlpenv.ParseHeaders(text)
		if err != nil {
			return
		}
		for name, value := range headers {
			if err := otlpenv.CheckHeader(name, value); err != nil || value != strings.TrimSpace(value) {
				t.Errorf("%q gave header %q = %q: %v", text, name, value, err)
			}
		}
	})
}
