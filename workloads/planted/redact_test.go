package planted

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/tare-trace/tare/otel/redact"
)

// missed are the kinds of secrets that otel/redact leaves, with the default rules and with
// more of its detectors, in every place but in SQL, where literals go whatever they are.
// docs/collector.md tells why; the test compares the kinds that it lists with these.
var missed = map[string][]string{
	"default":  {"name", "phone, national", "national id, US", "national id, FI", "IPv4 address", "IPv6 address"},
	"optional": {"name", "phone, national", "national id, FI"},
}

// changed are the kinds of decoys that it takes for secrets.
var changed = map[string][]string{
	"default":  {"word after a colon"},
	"optional": {"word after a colon", "version of four parts"},
}

func TestRedact(t *testing.T) {
	optional := redact.Default()
	optional.Rules = append(optional.Rules,
		redact.Rule{Name: "ip", Detect: redact.IP, Do: redact.Mask}, redact.Rule{Name: "us-ssn", Detect: redact.SSN, Do: redact.Mask})
	for name, config := range map[string]redact.Config{"default": redact.Default(), "optional": optional} {
		r, err := redact.New(config)
		require.NoError(t, err)
		const first, next = 1000, 1000 + 195 // each kind in each place 13 times, and each decoy 15 times
		f := NewFinder(first, next)
		for n := uint64(first); n < next; n++ {
			path, _, _ := strings.Cut(string(AppendPath(nil, n)), "?")
			f.Add([]byte(path))
			for _, record := range Records(n) {
				if record.Key == "" {
					f.Add([]byte(r.Text(record.Text)))
				} else if kv, ok := r.Attribute(attribute.String(record.Key, record.Text)); ok {
					f.Add([]byte(kv.Value.AsString()))
				}
			}
		}
		got := f.Counts()
		for class, c := range got.Secrets {
			places := len(Places)
			stored := 0
			if slices.Contains(missed[name], class) {
				stored = c.Planted / places * (places - 1) // all but SQL
			}
			if c.Planted != (next-first)/len(Secrets)*places || c.Stored != stored {
				t.Errorf("%s: %s: of %d, %d are left, want %d", name, class, c.Planted, c.Stored, stored)
			}
		}
		if c := got.Places[string(SQL)]; c.Stored != 0 || c.Planted != next-first {
			t.Errorf("%s: of %d literals in SQL, %d are left", name, c.Planted, c.Stored)
		}
		for class, c := range got.Decoys {
			stored := c.Planted
			if slices.Contains(changed[name], class) {
				stored = 0
			}
			if c.Stored != stored {
				t.Errorf("%s: %s: of %d decoys, %d are left, want %d", name, class, c.Planted, c.Stored, stored)
			}
		}
	}
}

// The document lists what is missed and what is a false alarm, each with its reason.
func TestDocumentListsWhatIsMissed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "collector.md"))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(b), "| not found, or found where nothing is | why | what helps |\n")
	table, _, ok2 := strings.Cut(table, "\n\n")
	if !ok || !ok2 {
		t.Fatal("docs/collector.md has no table of what is missed")
	}
	var listed []string
	for line := range strings.Lines(table + "\n") {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) == 3 {
			listed = append(listed, strings.TrimSuffix(cells[0], ", optional detectors"))
		}
	}
	want := slices.Concat(missed["default"], changed["optional"])
	slices.Sort(listed)
	slices.Sort(want)
	assert.Equal(t, want, listed, "list in docs/collector.md")
}
