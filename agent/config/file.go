package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file walks the YAML tree instead of decoding it into structs, because an error must
// name the line, the key, the value and what is allowed.
type file struct {
	name string
	errs []error
}

// maxFile bounds the size of a file.
const maxFile = 1 << 20

func parseFile(c *Config, name string, text []byte) error {
	if len(text) > maxFile {
		return &Error{name, fmt.Sprintf("%d bytes", len(text)), fmt.Sprintf("at most %d bytes", maxFile)}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // nothing but comments
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return &Error{name, "---", "one YAML document"}
	}
	f := &file{name: name}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	f.mapping(root, "", f.topLevel(c))
	return errors.Join(f.errs...)
}

// fields are the keys that a mapping may have.
type fields map[string]func(where string, n *yaml.Node)

func (f *file) topLevel(c *Config) fields {
	top := fields{
		"services": func(where string, n *yaml.Node) {
			c.Services = nil
			f.sequence(n, where, func(where string, n *yaml.Node) {
				c.Services = append(c.Services, f.rule(where, n))
			})
		},
		"trust": func(where string, n *yaml.Node) {
			c.Trust = nil
			alone := len(n.Content) == 1
			f.sequence(n, where, func(where string, n *yaml.Node) {
				f.scalar(n, where, func(v string) error {
					if v == "none" && alone {
						return nil
					}
					t, err := ParseTrust(f.at(n, where), v)
					c.Trust = append(c.Trust, t)
					return err
				})
			})
		},
		"correlation": func(where string, n *yaml.Node) { c.Correlation = f.correlation(where, n) },
		"resource":    func(where string, n *yaml.Node) { f.attributes(where, n, c.Resource) },
		"export": func(where string, n *yaml.Node) {
			f.mapping(n, where+".", fields{"protocol": func(where string, n *yaml.Node) {
				f.scalar(n, where, func(v string) error { return setProtocol(c, f.at(n, where), v) })
			}})
		},
	}
	for _, s := range settings {
		if s.key == "" || top[s.key] != nil {
			continue
		}
		top[s.key] = func(where string, n *yaml.Node) {
			f.scalar(n, where, func(v string) error { return s.set(c, f.at(n, where), v) })
		}
	}
	return top
}

func (f *file) rule(where string, n *yaml.Node) Rule {
	var r Rule
	text := func(to *string) func(string, *yaml.Node) {
		return func(where string, n *yaml.Node) {
			f.scalar(n, where, func(v string) error {
				*to = v
				if v == "" {
					return &Error{f.at(n, where), v, "something, or no such key"}
				}
				return nil
			})
		}
	}
	ok := f.mapping(n, where+".", fields{
		"name":       text(&r.Name),
		"executable": text(&r.Executable),
		"cgroup":     text(&r.Cgroup),
		"namespace":  text(&r.Namespace),
		"workload":   text(&r.Workload),
		"labels": func(where string, n *yaml.Node) {
			r.Labels = map[string]string{}
			f.attributes(where, n, r.Labels)
		},
		"annotations": func(where string, n *yaml.Node) {
			r.Annotations = map[string]string{}
			f.attributes(where, n, r.Annotations)
		},
		"ports": func(where string, n *yaml.Node) {
			f.sequence(n, where, func(where string, n *yaml.Node) {
				f.scalar(n, where, func(v string) error {
					p, err := ParsePorts(f.at(n, where), v)
					r.Ports = append(r.Ports, p)
					return err
				})
			})
		},
		"linking": func(where string, n *yaml.Node) {
			f.scalar(n, where, func(v string) (err error) {
				r.Linking, err = parseLinking(f.at(n, where), v)
				return err
			})
		},
		"published": func(where string, n *yaml.Node) {
			f.scalar(n, where, func(v string) (err error) {
				r.Published, err = parsePublished(f.at(n, where), v)
				return err
			})
		},
		"correlation": func(where string, n *yaml.Node) { r.Correlation = f.correlation(where, n) },
	})
	if ok && r.empty() {
		f.fail(n, where, r.Name, "at least one of ports, executable, cgroup, namespace, workload, labels, annotations")
	}
	return r
}

// correlation reads a list of headers, or one, or none.
func (f *file) correlation(where string, n *yaml.Node) []string {
	var names, list []string
	read := func(where string, n *yaml.Node) {
		f.scalar(n, where, func(v string) error {
			names = append(names, v)
			return nil
		})
	}
	if resolve(n).Kind == yaml.SequenceNode {
		f.sequence(n, where, read)
	} else {
		read(where, n)
	}
	list, err := parseCorrelation(f.at(n, where), names)
	if err != nil {
		f.errs = append(f.errs, err)
	}
	return list
}

func (f *file) attributes(where string, n *yaml.Node, to map[string]string) {
	f.pairs(n, where, func(key, v *yaml.Node) {
		f.scalar(v, where+"."+key.Value, func(text string) error {
			to[key.Value] = text
			return nil
		})
	})
}

// mapping calls the function of each key, and reports unknown keys. It returns false if
// there is an error in the mapping, at any depth.
func (f *file) mapping(n *yaml.Node, prefix string, known fields) bool {
	before := len(f.errs)
	f.pairs(n, strings.TrimSuffix(prefix, "."), func(key, v *yaml.Node) {
		if parse, ok := known[key.Value]; ok {
			parse(prefix+key.Value, v)
			return
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		f.fail(key, prefix+"(key)", key.Value, strings.Join(names, ", "))
	})
	return len(f.errs) == before
}

// pairs visits the keys of a mapping, each at most once.
func (f *file) pairs(n *yaml.Node, where string, visit func(key, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		f.fail(n, where, n.Value, "key: value pairs")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			f.fail(key, where, key.Value, "a name as key")
			continue
		}
		if seen[key.Value] {
			f.fail(key, where, key.Value, "each key once")
			continue
		}
		seen[key.Value] = true
		visit(key, n.Content[i+1])
	}
}

func (f *file) sequence(n *yaml.Node, where string, visit func(where string, n *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		f.fail(n, where, n.Value, "a list: [ … ], or lines that begin with -")
		return
	}
	for i, item := range n.Content {
		visit(fmt.Sprintf("%s[%d]", where, i), item)
	}
}

func (f *file) scalar(n *yaml.Node, where string, set func(string) error) {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		f.fail(n, where, n.Value, "a single value")
		return
	}
	if err := set(n.Value); err != nil {
		f.errs = append(f.errs, err)
	}
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (f *file) at(n *yaml.Node, where string) string {
	if n.Line == 0 { // from FromKeys, not from a file
		return f.name + "::" + where
	}
	if where == "" {
		return fmt.Sprintf("%s:%d", f.name, n.Line)
	}
	return fmt.Sprintf("%s:%d: %s", f.name, n.Line, where)
}

func (f *file) fail(n *yaml.Node, where, value, allowed string) {
	f.errs = append(f.errs, &Error{f.at(n, where), value, allowed})
}
