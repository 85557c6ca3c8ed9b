package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// quoted is what of a YAML parser's error is of the file, which may be somebody else's.
var quoted = regexp.MustCompile(`'[^']{2,}'|"[^"]{2,}"`)

var word = regexp.MustCompile(`^[\w. -]+$`)

// file walks the YAML tree instead of decoding it into structs, because an error must
// name the line, the key, the value and what is allowed.
type file struct {
	name string
	errs []error
}

// maxFile bounds the size of a file.
const maxFile = 1 << 20

// readFile reads a file that may be anything, put there by anybody: it does not wait, reads
// no more than maxFile bytes, and obeys no link of a user to what is not theirs.
func readFile(name string) ([]byte, error) {
	refuse := func(why string) ([]byte, error) {
		return nil, fmt.Errorf("configuration: %s is %s: a regular file of at most %d bytes is read", name, why, maxFile)
	}
	link, err := os.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	switch by, of := owner(link), owner(info); {
	case !info.Mode().IsRegular():
		return refuse("no regular file")
	case link.Mode()&os.ModeSymlink != 0 && by != of && by != 0 && by != os.Geteuid():
		return refuse("a link of one user to a file of another one")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > maxFile {
		return refuse("larger than that")
	}
	return text, nil
}

func owner(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

func parseFile(c *Config, name string, text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // nothing but comments
	} else if err != nil {
		return fmt.Errorf("%s: %s", name, quoted.ReplaceAllString(err.Error(), "…"))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return &Error{name, "---", "one YAML document"}
	}
	f := &file{name: name}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode { // another file, of which nothing is to be told
		return fmt.Errorf("%s:%d: no configuration: allowed: key: value pairs", name, root.Line)
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
		f.fail(key, prefix+"(key)", keyIn(key.Value), strings.Join(names, ", "))
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
			f.fail(key, where, keyIn(key.Value), "a name as key")
			continue
		}
		if seen[key.Value] {
			f.fail(key, where, keyIn(key.Value), "each key once")
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

// keyIn is a key as an error may tell it: of a file that is no configuration, nothing.
func keyIn(text string) string {
	if len(text) <= 40 && word.MatchString(text) {
		return text
	}
	return "…"
}

func (f *file) fail(n *yaml.Node, where, value, allowed string) {
	f.errs = append(f.errs, &Error{f.at(n, where), value, allowed})
}
