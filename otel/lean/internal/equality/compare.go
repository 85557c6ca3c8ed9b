package equality

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shown is how many unequal spans a difference describes; more do not help.
const shown = 3

// Compare says how got differs from want; nil: it does not. With exact, ids must be equal as they are,
// else by the places of their spans. With ordered, notes must come in the same order.
func Compare(want, got Result, exact, ordered bool) error {
	a, errA := canonical(want)
	b, errB := canonical(got)
	if errA != nil {
		errA = fmt.Errorf("%s: %w", want.Pipeline, errA)
	}
	if errB != nil {
		errB = fmt.Errorf("%s: %w", got.Pipeline, errB)
	}
	if !exact {
		same, other := ids(a), ids(b)
		maps.DeleteFunc(same, func(id string, _ bool) bool { return !other[id] })
		nameIDs(a, same)
		nameIDs(b, same)
	}
	return errors.Join(errA, errB, compareSpans(want.Pipeline, got.Pipeline, a, b),
		compareNotes(want.Pipeline, got.Pipeline, want.Notes, got.Notes, exact, ordered))
}

// ids are all that occur in spans.
func ids(spans []*Span) map[string]bool {
	out := map[string]bool{}
	for _, s := range spans {
		out[string(s.GetTraceId())], out[string(s.GetSpanId())], out[string(s.GetParentSpanId())] = true, true, true
		for _, l := range s.GetLinks() {
			out[string(l.GetTraceId())], out[string(l.GetSpanId())] = true, true
		}
	}
	return out
}

func compareSpans(nameA, nameB string, a, b []*Span) error {
	a, b = unequal(a, b)
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "spans that the other has not: %s %d, %s %d\n", nameA, len(a), nameB, len(b))
	for i, p := range pair(a, b) {
		if i == shown {
			fmt.Fprintf(&text, "… and more\n")
			break
		}
		switch {
		case p[1] == nil:
			fmt.Fprintf(&text, "only %s has span %q\n", nameA, p[0].GetName())
		case p[0] == nil:
			fmt.Fprintf(&text, "only %s has span %q\n", nameB, p[1].GetName())
		default:
			fmt.Fprintf(&text, "span %q\n%s", p[0].GetName(), diff(nameA, nameB, p[0].text(), p[1].text()))
		}
	}
	return errors.New(text.String())
}

// unequal returns the spans of each side that have no equal on the other, each used once.
func unequal(a, b []*Span) (onlyA, onlyB []*Span) {
	inB := make(map[string][]*Span, len(b))
	for _, s := range b {
		k := string(s.bytes())
		inB[k] = append(inB[k], s)
	}
	matched := make(map[*Span]bool, len(b))
	for _, s := range a {
		k := string(s.bytes())
		if like := inB[k]; len(like) > 0 {
			inB[k], matched[like[0]] = like[1:], true
		} else {
			onlyA = append(onlyA, s)
		}
	}
	for _, s := range b {
		if !matched[s] {
			onlyB = append(onlyB, s)
		}
	}
	return onlyA, onlyB
}

// pair puts together what is most likely the same span: by id, else by name.
func pair(a, b []*Span) [][2]*Span {
	rest := slices.Clone(b)
	var out [][2]*Span
	take := func(s *Span, like func(*Span) bool) *Span {
		i := slices.IndexFunc(rest, like)
		if i < 0 {
			return nil
		}
		t := rest[i]
		rest = slices.Delete(rest, i, i+1)
		return t
	}
	for _, s := range a {
		t := take(s, func(t *Span) bool { return string(t.GetSpanId()) == string(s.GetSpanId()) })
		if t == nil {
			t = take(s, func(t *Span) bool { return t.GetName() == s.GetName() })
		}
		out = append(out, [2]*Span{s, t})
	}
	for _, t := range rest {
		out = append(out, [2]*Span{nil, t})
	}
	return out
}

// diff shows the lines that only one side has, those of one path next to each other.
func diff(nameA, nameB string, a, b []string) string {
	inA, inB := map[string]bool{}, map[string]bool{}
	for _, l := range a {
		inA[l] = true
	}
	for _, l := range b {
		inB[l] = true
	}
	var out []string
	for _, l := range a {
		if !inB[l] {
			out = append(out, fmt.Sprintf("  %s\x00  - %-9s%s", path(l), nameA, l))
		}
	}
	for _, l := range b {
		if !inA[l] {
			out = append(out, fmt.Sprintf("  %s\x00  + %-9s%s", path(l), nameB, l))
		}
	}
	slices.SortStableFunc(out, func(x, y string) int { return strings.Compare(path(x), path(y)) })
	var text strings.Builder
	for _, l := range out {
		_, l, _ = strings.Cut(l, "\x00")
		if len(l) > 400 {
			l = l[:400] + "…"
		}
		text.WriteString(l + "\n")
	}
	return text.String()
}

func path(line string) string {
	p, _, _ := strings.Cut(line, ": ")
	p, _, _ = strings.Cut(p, "\x00")
	return p
}

// hexID finds trace and span ids in notes.
var hexID = regexp.MustCompile(`\b(?:[0-9a-f]{32}|[0-9a-f]{16})\b`)

func compareNotes(nameA, nameB string, a, b []string, exact, ordered bool) error {
	if !exact {
		textA, textB := strings.Join(a, "\n"), strings.Join(b, "\n")
		a, b = rename(a, textB, ordered), rename(b, textA, ordered)
	}
	if !ordered {
		a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	}
	if slices.Equal(a, b) {
		return nil
	}
	number := func(notes []string) []string {
		out := make([]string, len(notes))
		for i, n := range notes {
			out[i] = fmt.Sprintf("note %03d: %s", i, n)
		}
		return out
	}
	return fmt.Errorf("the program saw\n%s", diff(nameA, nameB, number(a), number(b)))
}

// rename replaces ids that the other run has not by the order in which they occur; without an order,
// by one word.
func rename(notes []string, other string, ordered bool) []string {
	names := map[string]string{}
	out := make([]string, len(notes))
	for i, n := range notes {
		out[i] = hexID.ReplaceAllStringFunc(n, func(id string) string {
			if strings.Contains(other, id) {
				return id
			}
			if !ordered {
				return "<id>"
			}
			if names[id] == "" {
				names[id] = fmt.Sprintf("<id %d>", len(names))
			}
			return names[id]
		})
	}
	return out
}
