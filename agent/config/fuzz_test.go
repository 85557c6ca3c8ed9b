package config

import (
	"strings"
	"testing"
)

func FuzzFile(f *testing.F) {
	f.Add([]byte("services:\n- {name: a, ports: [1, 2-3], linking: loop}\ntrust: [host, ::1/128]\nsampler: always_on\n"))
	f.Add([]byte("a: &a [*a]\n<<: {payload: on}\nresource: {a: &x b, c: *x}"))
	f.Add([]byte("? [a]\n: b\n--- x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		if err := parseFile(&c, "f.yaml", text); err != nil {
			return
		}
		for _, r := range c.Services {
			if r.empty() {
				t.Errorf("a rule that selects everything: %+v", r)
			}
		}
		if _, _, err := Threshold(c.Sampler, c.SamplerArg); err != nil {
			t.Error(err)
		}
	})
}

func FuzzResource(f *testing.F) {
	f.Add("a=b,c=%2C")
	f.Add(",=,%")
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		if err := parseResource(&c, "x", text); err != nil && len(c.Resource) != 0 {
			t.Errorf("%q: an error, and %v kept", text, c.Resource)
		}
		for k := range c.Resource {
			if k == "" {
				t.Errorf("%q: empty key", text)
			}
		}
	})
}

func FuzzSelectors(f *testing.F) {
	f.Add("shop=8080")
	f.Add("9000-9010")
	f.Add("a=*/b=c")
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range selectorKinds {
			r, err := selector{kind, text}.rule("x")
			if err == nil && r.empty() {
				t.Errorf("%s %q selects everything", kind, text)
			}
		}
		if p, err := ParsePorts("x", text); err == nil {
			if back, err := ParsePorts("x", p.String()); err != nil || back != p {
				t.Errorf("%q: %v, then %v %v", text, p, back, err)
			}
		}
		if n, err := ParseTrust("x", text); err == nil {
			if back, err := ParseTrust("x", n.String()); err != nil || back != n {
				t.Errorf("%q: %v, then %v %v", text, n, back, err)
			}
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("*/python3*", "/usr/bin/python3.11")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		got := Glob(pattern, text)
		if !strings.ContainsAny(pattern, "*?") && got != (pattern == text) {
			t.Errorf("literal %q on %q: %v", pattern, text, got)
		}
		if !Glob("*"+text+"*", "a"+text+"b") || !Glob(text+"*", text) {
			t.Errorf("%q is not found in itself", text)
		}
	})
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"*/python3*", "/usr/bin/python3.11", true},
		{"*/python3*", "/usr/bin/python2", false},
		{"/system.slice/shop.service*", "/system.slice/shop.service/child", true},
		{"/a?c", "/abc", true},
		{"/a?c", "/ac", false},
		{"*a*b*c", "xxaxxbxxbxxc", true},
		{"", "", true},
		{"*", "", true},
		{"", "a", false},
		{"[a]", "a", false},
	} {
		if got := Glob(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q on %q: %v", tt.pattern, tt.text, got)
		}
	}
	// Bad globs elsewhere take exponential time here.
	if Glob(strings.Repeat("*a", 60), strings.Repeat("a", 50000)+"b") {
		t.Error("matched")
	}
}
