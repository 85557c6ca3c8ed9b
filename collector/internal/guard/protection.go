package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"
)

// ErrPlaintext says that agents would be received from the network without TLS.
var ErrPlaintext = errors.New("without TLS anyone on the network can read what is sent, and send false data")

// protection rejects a configuration with a receiver, or a tare_retro extension, to which
// agents send as to a receiver, that listens without TLS on an address that is not loopback,
// unless --plaintext allows it. The page and its query API have a check of their own, which
// also requires authentication.
//
// It is a converter, because converters see the merged configuration whether it is run,
// validated, printed or reloaded.
type protection struct{ plaintext bool }

// NewFactory makes the converter. With plaintext it accepts everything.
func NewFactory(plaintext bool) confmap.ConverterFactory {
	return confmap.NewConverterFactory(func(confmap.ConverterSettings) confmap.Converter {
		return protection{plaintext: plaintext}
	})
}

func (p protection) Convert(_ context.Context, conf *confmap.Conf) error {
	if p.plaintext {
		return nil
	}
	all := conf.ToStringMap()
	receivers, _ := all["receivers"].(map[string]any)
	if err := unprotected("receivers", receivers); err != nil {
		return err
	}
	extensions, _ := all["extensions"].(map[string]any)
	coordinators := map[string]any{}
	for id, section := range extensions {
		if kind, _, _ := strings.Cut(id, "/"); kind == "tare_retro" {
			coordinators[id] = section
		}
	}
	return unprotected("extensions", coordinators)
}

// unprotected looks for `endpoint` at every depth, because receivers have it at different
// places, always with the same meaning.
func unprotected(path string, section map[string]any) error {
	if endpoint, ok := section["endpoint"].(string); ok && !loopback(endpoint) && !hasCertificate(section["tls"]) {
		return fmt.Errorf("%s::endpoint: %q is open to the network, and %s::tls has no certificate: %w; "+
			"set a certificate, listen on 127.0.0.1, or start with --plaintext", path, endpoint, path, ErrPlaintext)
	}
	var names []string
	for name := range section {
		names = append(names, name)
	}
	slices.Sort(names) // the same error each time
	for _, name := range names {
		if inner, ok := section[name].(map[string]any); ok {
			if err := unprotected(path+"::"+name, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasCertificate(tls any) bool {
	section, _ := tls.(map[string]any)
	for _, key := range []string{"cert_file", "cert_pem"} {
		if v, _ := section[key].(string); v != "" {
			return true
		}
	}
	return false
}

// loopback reports whether only this machine can reach an endpoint. Names other than
// localhost are not looked up, because the answer may change.
func loopback(endpoint string) bool {
	if strings.HasPrefix(endpoint, "unix:") || strings.HasPrefix(endpoint, "/") || strings.HasPrefix(endpoint, "@") {
		return true
	}
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		host = endpoint
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
