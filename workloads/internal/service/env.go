package service

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env reads settings from the environment. An empty variable is the same as
// none. What is wrong is collected, so that a user learns of all of it at
// once: see Err.
type Env struct {
	get  func(string) string
	errs []error
}

// NewEnv reads by get, which is os.Getenv but in tests.
func NewEnv(get func(string) string) *Env { return &Env{get: get} }

// Err is every wrong value so far, each with the name of its variable.
func (e *Env) Err() error { return errors.Join(e.errs...) }

// Wrong notes a value that is not what is wanted.
func (e *Env) Wrong(key, value, want string) {
	e.errs = append(e.errs, fmt.Errorf("%s: %q is not %s", key, value, want))
}

// Fail notes an error of a part that reads variables of its own.
func (e *Env) Fail(err error) { e.errs = append(e.errs, err) }

// String is the variable's value as it is.
func (e *Env) String(key, unset string) string {
	if v := e.get(key); v != "" {
		return v
	}
	return unset
}

// Bool reads true or false, and 1 or 0.
func (e *Env) Bool(key string, unset bool) bool {
	v := e.get(key)
	if v == "" {
		return unset
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		e.Wrong(key, v, "true or false")
	}
	return b
}

// Float reads a number from least to most, both included.
func (e *Env) Float(key string, unset, least, most float64) float64 {
	v := e.get(key)
	if v == "" {
		return unset
	}
	f, err := strconv.ParseFloat(v, 64)
	if err == nil && f >= least && f <= most { // NaN is neither
		return f
	}
	want := fmt.Sprintf("a number from %v to %v", least, most)
	if math.IsInf(most, 1) {
		want = fmt.Sprintf("a number from %v", least)
	}
	e.Wrong(key, v, want)
	return unset
}

// Int reads an integer from least to most, both included.
func (e *Env) Int(key string, unset, least, most int) int {
	v := e.get(key)
	if v == "" {
		return unset
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		e.Wrong(key, v, fmt.Sprintf("an integer from %d to %d", least, most))
		return unset
	}
	return n
}

// Duration reads 500ms, 1.5s or 2m, up to most.
func (e *Env) Duration(key string, unset, most time.Duration) time.Duration {
	v := e.get(key)
	if v == "" {
		return unset
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > most {
		e.Wrong(key, v, fmt.Sprintf("a duration such as 500ms or 2s, up to %v", most))
		return unset
	}
	return d
}

// OneOf reads one of the values.
func (e *Env) OneOf(key, unset string, values ...string) string {
	v := e.get(key)
	if v == "" {
		return unset
	}
	if !slices.Contains(values, v) {
		e.Wrong(key, v, "one of "+strings.Join(values, ", "))
		return unset
	}
	return v
}

// URL reads the base URL of an HTTP server; "" if there is none.
func (e *Env) URL(key string) string {
	v := e.get(key)
	if v == "" {
		return ""
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		e.Wrong(key, v, "the base URL of an HTTP server, such as http://127.0.0.1:4318")
	}
	return v
}
