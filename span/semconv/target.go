package semconv

import "strings"

// maxTarget is how many bytes of a target are shown.
const maxTarget = 200

// Target is what a span asked for, in so far as its name does not say it: the
// path of an HTTP request, a query, a queue. Names must have few different
// values (semantic conventions 1.40, HTTP spans: "{method}" where no route is
// known), targets need not; so they stand beside the name where spans are shown.
// The zero value is ready for [Target.Take].
type Target struct {
	rank int
	text string
}

// Take looks at an attribute that is a text.
func (t *Target) Take(key, value string) {
	if rank := targetRank(key); rank > t.rank && value != "" {
		t.rank, t.text = rank, value
	}
}

// IsTarget reports whether an attribute with this key may say what a span asked for.
func IsTarget(key string) bool { return targetRank(key) > 0 }

// targetRank orders the attributes by how well they tell the target; 0: not at
// all. Each key is followed by what older conventions called the same.
func targetRank(key string) int {
	switch key {
	case "url.path", "http.target":
		return 4
	case "url.full", "http.url":
		return 3
	case "db.query.text", "db.statement":
		return 2
	case "messaging.destination.name":
		return 1
	}
	return 0
}

// Beside is what to show after the name, on one line: of a URL the path, of a
// query that begins with the name the rest, cut to 200 bytes; "" if nothing was
// told, or the name says it.
func (t *Target) Beside(name string) string {
	text := t.text
	if t.rank >= 3 {
		if _, rest, ok := strings.Cut(text, "://"); ok {
			text = "/"
			if i := strings.IndexByte(rest, '/'); i >= 0 {
				text = rest[i:]
			}
		}
		if i := strings.IndexAny(text, "?#"); i >= 0 {
			text = text[:i]
		}
	}
	if text == "" || strings.Contains(name, text) {
		return ""
	}
	if rest, ok := strings.CutPrefix(text, name); ok && strings.HasPrefix(rest, " ") {
		text = rest
	}
	if len(text) > maxTarget {
		text = strings.ToValidUTF8(text[:maxTarget], "") + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}
