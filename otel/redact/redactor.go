package redact

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Redactor applies a Config. Make it with New; it may be used by any number of
// goroutines. Nothing is allocated for what leaves unchanged, except that
// slices of strings and nested values are copied to be looked at.
type Redactor struct {
	rules   []*rule
	allow   []glob
	only    bool // allow-list mode
	free    *scanner
	hash    *hasher
	plans   cache[*plan]
	scansMu sync.Mutex
	scans   map[string]*scanner // by the rules in them
	last    atomic.Pointer[resourcePair]
	scope   atomic.Pointer[scopePair]
	dropped atomic.Uint64
	// unstable counts texts that were given up.
	unstable rule
}

type resourcePair struct{ in, out *resource.Resource }
type scopePair struct{ in, out instrumentation.Scope }

// New compiles a configuration. An error names the rule that it is about.
func New(c Config) (*Redactor, error) {
	r := &Redactor{scans: map[string]*scanner{}}
	hash := func() (*hasher, error) {
		if r.hash != nil {
			return r.hash, nil
		}
		h, err := newHasher(c.Hash)
		r.hash = h
		return h, err
	}
	seen := map[string]bool{}
	for i, cr := range c.Rules {
		if cr.Name == "" {
			return nil, fmt.Errorf("redact: rule %d has no name", i+1)
		}
		if seen[cr.Name] {
			return nil, fmt.Errorf("redact: rule %d: a rule before it is named %q, too", i+1, cr.Name)
		}
		seen[cr.Name] = true
		cr, err := newRule(cr, hash)
		if err != nil {
			return nil, fmt.Errorf("redact: rule %d %q: %w", i+1, c.Rules[i].Name, err)
		}
		r.rules = append(r.rules, cr)
	}
	if c.Hash != (Hashing{}) { // wrong settings are wrong even if no rule uses them yet
		if _, err := hash(); err != nil {
			return nil, fmt.Errorf("redact: %w", err)
		}
	}
	if c.Allow != nil {
		if err := r.setAllow(*c.Allow); err != nil {
			return nil, fmt.Errorf("redact: allow: %w", err)
		}
	}
	r.free = r.scannerFor("", true)
	return r, nil
}

func (r *Redactor) setAllow(a AllowList) error {
	keys := a.Keys
	if a.Safe {
		keys = append(SafeKeys(), keys...)
	}
	if len(keys) == 0 {
		return errors.New("lists no keys: nothing would leave; give keys, or safe: true")
	}
	r.only = true
	var err error
	r.allow, err = newGlobs(keys)
	return err
}

// Text returns s with what rules find inside replaced: for status
// descriptions, exception messages, log lines, and whatever has no key. Rules
// with Keys do not apply. An s that is clean is returned as it is.
func (r *Redactor) Text(s string) string { return r.free.text(s) }

// Name is Text for the name of a span or an event.
func (r *Redactor) Name(s string) string { return r.free.text(s) }

// Attribute returns kv as it may leave, and false if it may not. A key that
// itself holds something sensitive leaves redacted.
func (r *Redactor) Attribute(kv attribute.KeyValue) (attribute.KeyValue, bool) {
	var out attribute.KeyValue
	leaves, changed := r.attribute(&kv, &out)
	if changed {
		return out, leaves
	}
	return kv, leaves
}

// attribute writes to out only what is changed: attributes are 72 bytes, and
// most leave as they are.
func (r *Redactor) attribute(kv, out *attribute.KeyValue) (leaves, changed bool) {
	p := r.plan(string(kv.Key))
	if r.only && !p.allowed {
		r.dropped.Add(1)
		return false, true
	}
	return r.apply(p, kv, out, 0)
}

func (r *Redactor) apply(p *plan, kv, out *attribute.KeyValue, depth int) (leaves, changed bool) {
	if p.whole != nil && p.whole.Do == Remove {
		p.whole.count.Add(1)
		return false, true
	}
	if p.whole == nil && p.key == kv.Key && kv.Value.Type() == attribute.STRING { // by far the most
		s := kv.Value.AsString()
		t := p.scan.text(s)
		if t == s {
			return true, false
		}
		*out = attribute.KeyValue{Key: kv.Key, Value: attribute.StringValue(t)}
		return true, true
	}
	v, changed := r.value(p, kv.Value, depth)
	if changed || p.key != kv.Key {
		*out = attribute.KeyValue{Key: p.key, Value: v}
		return true, true
	}
	return true, false
}

// attributes returns in itself if all of it may leave as it is, else a copy.
func (r *Redactor) attributes(in []attribute.KeyValue) []attribute.KeyValue {
	var out []attribute.KeyValue
	var kv attribute.KeyValue
	for i := range in {
		leaves, changed := r.attribute(&in[i], &kv)
		if changed && out == nil {
			out = append(make([]attribute.KeyValue, 0, len(in)), in[:i]...)
		}
		switch {
		case out == nil || !leaves:
		case changed:
			out = append(out, kv)
		default:
			out = append(out, in[i])
		}
	}
	if out == nil {
		return in
	}
	return out
}

// Resource returns res as it may leave: res itself, if it is clean. The last
// result is remembered, since a process has one resource.
func (r *Redactor) Resource(res *resource.Resource) *resource.Resource {
	if res == nil {
		return nil
	}
	if last := r.last.Load(); last != nil && last.in == res {
		return last.out
	}
	in := res.Attributes()
	out := res
	if attrs, url := r.attributes(in), r.Text(res.SchemaURL()); len(attrs) != len(in) || url != res.SchemaURL() || len(attrs) > 0 && &attrs[0] != &in[0] {
		out = resource.NewWithAttributes(url, attrs...)
	}
	r.last.Store(&resourcePair{res, out})
	return out
}

// Scope returns an instrumentation scope with its attributes as they may leave.
func (r *Redactor) Scope(s instrumentation.Scope) instrumentation.Scope {
	if s.Attributes.Len() == 0 {
		return s
	}
	if last := r.scope.Load(); last != nil && last.in == s {
		return last.out
	}
	out := s
	in := s.Attributes.ToSlice()
	out.Attributes = attribute.NewSet(r.attributes(in)...)
	r.scope.Store(&scopePair{s, out})
	return out
}

// plan is what is known of an attribute key.
type plan struct {
	key     attribute.Key // as it leaves
	allowed bool
	whole   *rule // for the whole value, may be nil
	scan    *scanner
}

func (r *Redactor) plan(key string) *plan {
	if p, ok := r.plans.get(key); ok {
		return p
	}
	p := &plan{key: attribute.Key(strings.Clone(r.free.text(key)))}
	for _, g := range r.allow {
		if p.allowed = g.whole(key); p.allowed {
			break
		}
	}
	for _, c := range r.rules {
		if c.whole() && c.covers(key) {
			p.whole = c
			break
		}
	}
	p.scan = r.scannerFor(key, false)
	r.plans.put(key, p)
	return p
}

// scannerFor returns the scanner for a key's values, or for texts without a
// key. Scanners differ by the rules in them; there are few.
func (r *Redactor) scannerFor(key string, keyless bool) *scanner {
	var of []*rule
	id := make([]byte, len(r.rules))
	for i, c := range r.rules {
		inside := !c.whole() || len(c.Names) > 0
		switch {
		case !inside, keyless && len(c.keys) > 0 && len(c.Names) == 0:
			continue
		case !keyless && len(c.Names) > 0 && anyMatches(c.except, key), !keyless && len(c.Names) == 0 && !c.covers(key):
			continue
		}
		of = append(of, c)
		id[i] = 1
	}
	r.scansMu.Lock()
	defer r.scansMu.Unlock()
	if sc := r.scans[string(id)]; sc != nil {
		return sc
	}
	sc := r.newScanner(of)
	r.scans[string(id)] = sc
	return sc
}

func (r *Redactor) newScanner(of []*rule) *scanner {
	sc := &scanner{hash: r.hash, unstable: &r.unstable}
	for _, c := range of {
		switch {
		case c.Detect != "":
			if at := sc.by.of(c.Detect); *at == nil {
				*at = c
			}
		case c.re != nil:
			sc.patterns = append(sc.patterns, c)
		}
	}
	sc.names = newNameRules(of)
	sc.prepare()
	return sc
}
