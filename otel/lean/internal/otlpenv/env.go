package otlpenv

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const prefix = "OTEL_EXPORTER_OTLP_"

// Variable is an environment variable that is set.
type Variable struct {
	Name, Value string
	// Traces: it is the one for traces, not the one for all signals.
	Traces bool
}

// Errorf returns an error that names the variable.
func (v Variable) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{v.Name}, args...)...)
}

// Settings are what the environment says. Nil fields: it says nothing.
type Settings struct {
	Endpoint *Variable // what it means differs between HTTP and gRPC
	Insecure *bool
	Headers  map[string]string
	Timeout  *time.Duration // 0: none
	Gzip     *bool
	TLS      *tls.Config
}

// Read reads the environment. The error joins one for every wrong variable.
func Read() (Settings, error) {
	var s Settings
	var errs []error
	parse := func(suffix string, into func(Variable) error) {
		if v, ok := lookup(suffix); ok {
			if err := into(v); err != nil {
				errs = append(errs, err)
			}
		}
	}
	parse("ENDPOINT", func(v Variable) error {
		s.Endpoint = &v
		return nil
	})
	parse("INSECURE", func(v Variable) (err error) {
		s.Insecure, err = boolean(v)
		return err
	})
	parse("HEADERS", func(v Variable) (err error) {
		if s.Headers, err = ParseHeaders(v.Value); err != nil {
			return v.Errorf("%w", err)
		}
		return nil
	})
	parse("TIMEOUT", func(v Variable) (err error) {
		s.Timeout, err = milliseconds(v)
		return err
	})
	parse("COMPRESSION", func(v Variable) error {
		switch v.Value {
		case "gzip", "none":
			gzip := v.Value == "gzip"
			s.Gzip = &gzip
			return nil
		}
		return v.Errorf("compression %q is not known: use gzip or none", v.Value)
	})
	var err error
	if s.TLS, err = tlsConfig(); err != nil {
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// lookup returns the variable for traces, else the one for all signals.
func lookup(suffix string) (Variable, bool) {
	v := Variable{Name: prefix + "TRACES_" + suffix, Traces: true}
	if v.Value = strings.TrimSpace(os.Getenv(v.Name)); v.Value != "" {
		return v, true
	}
	v = Variable{Name: prefix + suffix}
	v.Value = strings.TrimSpace(os.Getenv(v.Name))
	return v, v.Value != ""
}

// boolean: only "true" and "false", in any case, as the specification says.
func boolean(v Variable) (*bool, error) {
	yes := strings.EqualFold(v.Value, "true")
	if !yes && !strings.EqualFold(v.Value, "false") {
		return nil, v.Errorf("%q is neither true nor false", v.Value)
	}
	return &yes, nil
}

func milliseconds(v Variable) (*time.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil || n < 0 || n > most {
		return nil, v.Errorf("%q is not a number of milliseconds: use a whole number such as 10000, or 0 for no limit", v.Value)
	}
	d := time.Duration(n) * time.Millisecond
	return &d, nil
}
