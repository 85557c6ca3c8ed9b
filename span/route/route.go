// Package route learns the routes of HTTP services that do not tell theirs: which
// segments of a path are constant, and which are values, such as ids and names. So
// requests can be grouped by what they ask for, as a framework's route does it.
//
// A segment that looks like a value (numbers, UUIDs, hashes; see [IsValue]) is {id} at
// once. Other segments are words, until more than [Words] different ones were seen at
// the same place: then all of that place are {id}. What has become {id} stays {id}, so
// that a route changes a limited number of times, towards fewer. The routes that a set
// of paths leads to do not depend on the order in which they were seen, below the bounds.
package route

import (
	"strings"
	"sync"
	"sync/atomic"
)

// ID stands for a value in a route.
const ID = "{id}"

// Words is how many different words a place may have.
const Words = 50

// Bounds of a Learner. A tree or a learner at its bound takes any new word for a value.
const (
	maxSegments = 16      // of a path; what follows is one /*
	maxTree     = 1_000   // words and values of one group
	maxNodes    = 100_000 // of all groups
	maxGroups   = 1_000
)

// Learner learns the routes of groups: of a service, usually. It is safe for concurrent
// use.
type Learner struct {
	mu    sync.RWMutex
	trees map[string]*tree
	nodes atomic.Int64
}

// NewLearner returns a Learner that has seen nothing.
func NewLearner() *Learner { return &Learner{trees: map[string]*tree{}} }

type tree struct {
	mu    sync.Mutex
	root  node
	nodes int
	all   *atomic.Int64
}

// node is a place in paths: what comes after the same segments.
type node struct {
	words  map[string]*node
	value  *node // what comes after a value
	values bool  // every word is a value here
}

// Route is the path's route in a group. learn: the path is one that the service has;
// otherwise unknown words are not learned, and the path has no route. It has none
// either in a group that is new when there are too many.
func (l *Learner) Route(group, path string, learn bool) (route string, ok bool) {
	t := l.tree(group, learn)
	if t == nil {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	at, segments := &t.root, 0
	for rest := Clean(path); rest != ""; segments++ {
		if segments == maxSegments {
			out.WriteString("/*")
			break
		}
		var word string
		if word, rest, _ = strings.Cut(rest, "/"); word == "" {
			segments--
			continue
		}
		next := t.next(at, word, learn)
		if next == nil {
			return "", false
		}
		out.WriteByte('/')
		if next == at.value {
			word = ID
		}
		out.WriteString(word)
		at = next
	}
	if out.Len() == 0 {
		return "/", true
	}
	return out.String(), true
}

// Clean is the path of a request's target or URL: without scheme and host, query,
// fragment and parameters.
func Clean(path string) string {
	if _, rest, ok := strings.Cut(path, "://"); ok {
		_, path, _ = strings.Cut(rest, "/")
	}
	if i := strings.IndexAny(path, "?#;"); i >= 0 {
		path = path[:i]
	}
	return path
}

func (l *Learner) tree(group string, learn bool) *tree {
	l.mu.RLock()
	t := l.trees[group]
	full := len(l.trees) >= maxGroups
	l.mu.RUnlock()
	if t != nil || full || !learn {
		return t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t = l.trees[group]; t == nil && len(l.trees) < maxGroups {
		t = &tree{all: &l.nodes}
		l.trees[strings.Clone(group)] = t
	}
	return t
}

// next is the node after a word, nil if it is unknown and not to be learned.
func (t *tree) next(at *node, word string, learn bool) *node {
	if next := at.words[word]; next != nil {
		return next
	}
	if !at.values && !IsValue(word) {
		if !learn {
			return nil
		}
		if len(at.words) < Words && t.nodes < maxTree && t.all.Load() < maxNodes {
			if at.words == nil {
				at.words = map[string]*node{}
			}
			next := t.node()
			at.words[strings.Clone(word)] = next
			return next
		}
		t.join(at)
	}
	if at.value == nil {
		at.value = t.node()
	}
	return at.value
}

func (t *tree) node() *node {
	t.nodes++
	t.all.Add(1)
	return &node{}
}

// join makes all words of a place values.
func (t *tree) join(at *node) {
	words := at.words
	at.words, at.values = nil, true
	for _, n := range words {
		if at.value == nil {
			at.value = n
		} else {
			t.merge(at.value, n)
		}
	}
}

// merge adds to a node what comes after another, which is not used any more.
func (t *tree) merge(to, from *node) {
	t.nodes--
	t.all.Add(-1)
	if from.value != nil {
		if to.value == nil {
			to.value = from.value
		} else {
			t.merge(to.value, from.value)
		}
	}
	if to.words == nil {
		to.words = map[string]*node{}
	}
	for word, n := range from.words {
		if was := to.words[word]; was == nil {
			to.words[word] = n
		} else {
			t.merge(was, n)
		}
	}
	if to.values = to.values || from.values; to.values || len(to.words) > Words {
		t.join(to)
	}
}

// Shape is the path with {id} for each segment that looks like a value: its route, as
// far as one path tells it.
func Shape(path string) string {
	var out strings.Builder
	n := 0
	for word := range strings.SplitSeq(Clean(path), "/") {
		if word == "" {
			continue
		}
		if n++; n > maxSegments {
			out.WriteString("/*")
			break
		}
		out.WriteByte('/')
		if IsValue(word) {
			word = ID
		}
		out.WriteString(word)
	}
	if out.Len() == 0 {
		return "/"
	}
	return out.String()
}
