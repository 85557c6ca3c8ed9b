package redact

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	maskText    = "REDACTED"
	queryMask   = "?"
	keepDefault = 4
	keepMost    = 64
	v4Default   = 24
	v6Default   = 48
)

var detectors = []Detector{Userinfo, Email, Card, JWT, Bearer, APIKey, PrivateKey, IBAN, Phone, Query, IP, SSN, Entropy}

// rule is a compiled Rule.
type rule struct {
	Rule
	keys, names, except []glob
	re                  *regexp.Regexp
	group               int    // of re, whose text is replaced
	literal             string // that every match of re contains; may be empty
	hash                *hasher
	count               atomic.Uint64
}

func newRule(c Rule, h func() (*hasher, error)) (*rule, error) {
	r := &rule{Rule: c}
	if err := r.checkForm(); err != nil {
		return nil, err
	}
	if err := r.checkAction(); err != nil {
		return nil, err
	}
	var err error
	if r.keys, err = newGlobs(c.Keys); err != nil {
		return nil, err
	}
	if r.names, err = newGlobs(c.Names); err != nil {
		return nil, err
	}
	if r.except, err = newGlobs(c.Except); err != nil {
		return nil, err
	}
	if c.Pattern != "" {
		if err := r.compilePattern(); err != nil {
			return nil, err
		}
	}
	if c.Do == Hash {
		if r.hash, err = h(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rule) checkForm() error {
	switch {
	case r.Detect != "" && !slices.Contains(detectors, r.Detect):
		return fmt.Errorf("detect %q: want one of %v", r.Detect, detectors)
	case r.Detect != "" && r.Pattern != "":
		return errors.New("has detect and pattern: make two rules")
	case len(r.Names) > 0 && (r.Detect != "" || r.Pattern != ""):
		return errors.New("has names besides detect or pattern: make two rules")
	case len(r.Keys)+len(r.Names) == 0 && r.Detect == "" && r.Pattern == "":
		return errors.New("looks for nothing: give keys, names, detect or pattern")
	case r.Detect == Query && len(r.Keys) == 0:
		return errors.New("detect query needs keys: other texts than queries would lose all their numbers")
	}
	return nil
}

func (r *rule) checkAction() error {
	for _, f := range []struct {
		field string
		set   bool
		of    Action
	}{
		{"text", r.Text != "", Mask}, {"keep", r.Keep != 0, Keep}, {"length", r.Length != 0, Truncate},
		{"v4", r.V4 != 0, Network}, {"v6", r.V6 != 0, Network},
	} {
		if f.set && r.Do != f.of {
			return fmt.Errorf("%s belongs to do %q, not to %q", f.field, f.of, r.Do)
		}
	}
	switch r.Do {
	case Remove, Hash:
	case Mask:
		if r.Text == "" {
			r.Text = maskText
			if r.Detect == Query {
				r.Text = queryMask
			}
		}
	case Keep:
		if r.Keep == 0 {
			r.Keep = keepDefault
		}
		if r.Keep < 1 || r.Keep > keepMost {
			return fmt.Errorf("keep %d: want 1 to %d characters", r.Keep, keepMost)
		}
	case Truncate:
		if r.Length < 1 {
			return errors.New("truncate needs length, at least 1 character")
		}
		if len(r.Names) > 0 {
			return errors.New("truncate does not go with names: use keep, hash, mask or remove")
		}
	case Network:
		if r.Detect != IP {
			return errors.New("network goes with detect ip only")
		}
		if r.V4 == 0 {
			r.V4 = v4Default
		}
		if r.V6 == 0 {
			r.V6 = v6Default
		}
		if r.V4 < 1 || r.V4 > 32 || r.V6 < 1 || r.V6 > 128 {
			return fmt.Errorf("network of %d and %d bits: want v4 1 to 32, v6 1 to 128", r.V4, r.V6)
		}
	default:
		return fmt.Errorf("do %q: want remove, mask, keep, hash, truncate or network", r.Do)
	}
	return nil
}

func (r *rule) compilePattern() error {
	var err error
	if r.re, err = regexp.Compile(r.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if r.re.MatchString("") {
		return fmt.Errorf("pattern %q matches the empty string: it would match everywhere", r.Pattern)
	}
	if r.re.NumSubexp() > 0 {
		r.group = 1
	}
	r.literal = requiredLiteral(r.Pattern)
	return nil
}

// covers reports whether r holds for values of key.
func (r *rule) covers(key string) bool {
	if len(r.keys) > 0 && !anyMatches(r.keys, key) {
		return false
	}
	return !anyMatches(r.except, key)
}

// whole reports whether r is about whole values of its keys.
func (r *rule) whole() bool { return len(r.keys) > 0 && r.Detect == "" && r.re == nil }

func normalise(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '-' || c == '_' || c == ' ':
			return -1
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}, name)
}
