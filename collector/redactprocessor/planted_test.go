package redactprocessor

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/workloads/planted"
)

// Of what a service records of its requests, with values planted into every place, the
// processor leaves what the library leaves: kinds that have no form of their own.
func TestPlanted(t *testing.T) {
	const first, next = 1, 1 + 195 // each kind in each place several times
	record := func(n uint64) ptrace.Traces {
		td, s := oneSpan()
		s.SetName("POST")
		path, _, _ := strings.Cut(string(planted.AppendPath(nil, n)), "?")
		s.Attributes().PutStr("url.path", path)
		for _, r := range planted.Records(n) {
			switch r.Place {
			case planted.Name:
				s.SetName(r.Text)
			case planted.Event:
				s.Events().At(0).Attributes().PutStr(r.Key, r.Text)
			case planted.Header:
				s.Attributes().PutEmptySlice(r.Key).AppendEmpty().SetStr(r.Text)
			default:
				s.Attributes().PutStr(r.Key, r.Text)
			}
		}
		return td
	}
	for name, c := range map[string]struct {
		config string
		missed []string
	}{
		"default":  {"{}", []string{"name", "phone, national", "national id, US", "national id, FI", "IPv4 address", "IPv6 address"}},
		"optional": {"rules: [{name: ip, detect: ip, do: mask}, {name: us-ssn, detect: us-ssn, do: mask}]", []string{"name", "phone, national", "national id, FI"}},
		"patterns": {
			`rules: [{name: hetu, pattern: '\b[0-3]\d[01]\d{3}[-+A-FU-Y]\d{3}[0-9A-Y]\b', do: mask}, {name: phone-fi, pattern: '\b0\d{1,2}-\d{6,8}\b', do: mask}]`,
			[]string{"name", "national id, US", "IPv4 address", "IPv6 address"},
		},
	} {
		config, err := fromYAML(t, c.config)
		require.NoError(t, err)
		before, after := planted.NewFinder(first, next), planted.NewFinder(first, next)
		add := func(f *planted.Finder, td ptrace.Traces) {
			b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
			require.NoError(t, err)
			f.Add(b)
		}
		for n := uint64(first); n < next; n++ {
			add(before, record(n))
			add(after, run(t, config, record(n)))
		}
		if all := planted.Total(before.Counts().Secrets); all.Stored != all.Planted || all.Planted != 8*(next-first) {
			t.Fatalf("as it was recorded: %+v", all)
		}
		got := after.Counts()
		for class, count := range got.Secrets {
			stored := 0
			if slices.Contains(c.missed, class) {
				stored = count.Planted / 8 * 7 // not in SQL
			}
			if count.Stored != stored {
				t.Errorf("%s: %s: of %d, %d are left, want %d", name, class, count.Planted, count.Stored, stored)
			}
		}
		assert.Equal(t, next-first, got.Requests, "%s: requests with a path", name)
	}
}
