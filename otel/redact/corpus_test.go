package redact

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/redact/redacttest"
)

var update = flag.Bool("update", false, "write corpus.md anew")

const (
	corpusFile = "corpus.md"
	perCell    = 20  // texts a class, form and place
	perRow     = 200 // texts a spelling, and a kind of harmless text
)

// TestCorpus measures what leaves, and compares it with the committed table:
// a change of a detector shows as a change of what it misses.
func TestCorpus(t *testing.T) {
	var b strings.Builder
	b.WriteString(corpusHead)
	optional := full()
	optional.Rules[len(Default().Rules)].Do = Mask // ip: its network is more than a third
	standard, all := mustNew(t, Default()), mustNew(t, optional)
	byForm(&b, "Default, by form of spelling", standard)
	byForm(&b, "Default with the optional detectors ip, us-ssn and entropy, by form of spelling", all)
	byPlace(&b, standard)
	byName(&b, standard)
	falseFinds(&b, standard, all)
	got := b.String()
	if *update {
		require.NoError(t, os.WriteFile(corpusFile, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(corpusFile)
	require.NoError(t, err)
	if got != string(want) {
		was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
		for i := range is {
			if i >= len(was) || is[i] != was[i] {
				t.Fatalf("%s: line %d is not what is measured; if that is meant, go test -run Corpus -update\nmeasured: %s", corpusFile, i+1, is[i])
			}
		}
		t.Fatalf("%s has more lines than are measured; go test -run Corpus -update", corpusFile)
	}
}

const corpusHead = `<!-- Written by TestCorpus (go test ./redact -run Corpus -update). Do not edit. -->
# What redact finds, and what it misses

Measured on texts that the test makes from a fixed seed. A secret counts as found if no third of it (at
least 4 bytes) is left in one piece, in the form in which it was written. Numbers are per cent of texts.
The names around the secrets tell nothing, except in the table of names; a key rule on the attribute's
own key finds everything, whatever the form, and is not measured here.

The corpus is made by those who made the detectors, so it knows what they know: it shows which forms are
missed, not how often they occur in your traces. A key or a password without a known form and without a
name is missed nearly always, and so is whatever is encoded. Against that there are key rules and the
allow list.

Forms:
`

func percent(hit, n int) string {
	if hit == n || hit*100%n == 0 {
		return fmt.Sprint(hit * 100 / n)
	}
	return fmt.Sprintf("%.1f", float64(hit)*100/float64(n))
}

// seen reports whether a third of the secret is left in one piece.
func seen(out, secret string) bool {
	runes := []rune(secret)
	n := max((len(runes)+2)/3, 1)
	for n < len(runes) && len(string(runes[:n])) < 4 {
		n++
	}
	for i := 0; i+n <= len(runes); i++ {
		if strings.Contains(out, string(runes[i:i+n])) {
			return true
		}
	}
	return false
}

// found redacts one text, and reports whether the secret is gone.
func found(r *Redactor, p redacttest.Place, rng *rand.Rand, whole, secret string) bool {
	kv, ok := r.Attribute(attribute.String(p.Key, p.Put(rng, whole)))
	if !ok {
		return true
	}
	out := kv.Value.AsString()
	// What the place itself does to a secret (escapes), it does to the measure.
	marked := p.Put(rng, "\x00"+secret+"\x00")
	for _, mark := range []string{"\x00", `\u0000`} {
		if parts := strings.Split(marked, mark); len(parts) == 3 {
			secret = parts[1]
		}
	}
	return !seen(out, secret)
}

// noQueries are the places but SQL, where literals go whatever they are.
func noQueries() (out []int) {
	for i, p := range redacttest.Places {
		if p.Key != "db.query.text" {
			out = append(out, i)
		}
	}
	return out
}

func seeded(parts ...int) *rand.Rand {
	n := uint64(len(parts))
	for _, p := range parts {
		n = n*1009 + uint64(p)
	}
	return rand.New(rand.NewPCG(20260301, n))
}

func measure(r *Redactor, c, f, p int) (hit int) {
	for i := range perCell {
		rng := seeded(c, f, p, i)
		secret := redacttest.Classes[c].Make(rng)
		part := redacttest.Hidden(redacttest.Classes[c].Name, secret)
		if redacttest.Forms[f].Name != "cut" { // else it is cut with what is around it
			whole, part := redacttest.Forms[f].Spell(secret), redacttest.Forms[f].Spell(part)
			if !strings.Contains(whole, part) { // base64 of a part is no part of base64
				part = whole
			}
			if found(r, redacttest.Places[p], rng, whole, part) {
				hit++
			}
			continue
		}
		cut := redacttest.Forms[f].Spell(secret)
		if at := strings.Index(secret, part); at < len(cut) {
			part = cut[at:min(len(cut), at+len(part))]
		}
		if found(r, redacttest.Places[p], rng, cut, part) {
			hit++
		}
	}
	return hit
}

func byForm(b *strings.Builder, title string, r *Redactor) {
	if strings.HasPrefix(title, "Default,") {
		for _, f := range redacttest.Forms {
			about := f.About
			if about == "" {
				about = "of the whole"
			}
			fmt.Fprintf(b, "- %s: %s\n", f.Name, about)
		}
	}
	fmt.Fprintf(b, "\n## %s\n%d texts a cell, over the places but SQL.\n\n| found, %% |", title, perCell*len(noQueries()))
	for _, f := range redacttest.Forms {
		fmt.Fprintf(b, " %s |", f.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(redacttest.Forms)) + "\n")
	for c := range redacttest.Classes {
		fmt.Fprintf(b, "| %s |", redacttest.Classes[c].Name)
		for f := range redacttest.Forms {
			hit := 0
			for _, p := range noQueries() {
				hit += measure(r, c, f, p)
			}
			fmt.Fprintf(b, " %s |", percent(hit, perCell*len(noQueries())))
		}
		b.WriteString("\n")
	}
}

func byPlace(b *strings.Builder, r *Redactor) {
	fmt.Fprintf(b, "\n## Default, plain form, by place\n%d texts a cell. In SQL (db.query.text) literals go, whatever they are.\n\n| found, %% |", perCell)
	for _, p := range redacttest.Places {
		fmt.Fprintf(b, " %s |", p.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(redacttest.Places)) + "\n")
	for c := range redacttest.Classes {
		fmt.Fprintf(b, "| %s |", redacttest.Classes[c].Name)
		for p := range redacttest.Places {
			fmt.Fprintf(b, " %s |", percent(measure(r, c, 0, p), perCell))
		}
		b.WriteString("\n")
	}
}

func byName(b *strings.Builder, r *Redactor) {
	fmt.Fprintf(b, "\n## Default, secrets with a name\nPasswords of 12 characters named %s, %d texts a row.\n\n| written as | found, %% |\n|---|--:|\n", strings.Join(redacttest.SecretNames, ", "), perRow)
	for k, s := range redacttest.Spellings {
		hit := 0
		for i := range perRow {
			rng := seeded(k, i)
			secret := redacttest.Draw(rng, redacttest.Words+"!$*-_", 12)
			if !seen(r.Text(s.Put(redacttest.Pick(rng, redacttest.SecretNames...), secret)), secret) {
				hit++
			}
		}
		fmt.Fprintf(b, "| %s | %s |\n", s.Name, percent(hit, perRow))
	}
}

func falseFinds(b *strings.Builder, standard, all *Redactor) {
	fmt.Fprintf(b, "\n## Harmless texts that are changed\n%d texts a row.\n\n| changed, %% | Default | with optional detectors |\n|---|--:|--:|\n", perRow)
	for k, h := range redacttest.Harmless {
		var changed [2]int
		for i := range perRow {
			s := h.Make(seeded(k, i))
			for j, r := range []*Redactor{standard, all} {
				if r.Text(s) != s {
					changed[j]++
				}
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", h.Name, percent(changed[0], perRow), percent(changed[1], perRow))
	}
}

// The corpus is only worth something if its texts hold their secrets.
func TestCorpusHoldsSecrets(t *testing.T) {
	for c := range redacttest.Classes {
		for p := range redacttest.Places {
			rng := seeded(c, p)
			secret := redacttest.Classes[c].Make(rng)
			text := redacttest.Places[p].Put(rng, secret)
			assert.True(t, utf8.ValidString(text), "%q is no UTF-8", text)
			if found(mustNew(t, Config{}), redacttest.Places[p], rng, secret, redacttest.Hidden(redacttest.Classes[c].Name, secret)) {
				t.Errorf("without rules, %q in %q counts as found", secret, text)
			}
		}
	}
}
