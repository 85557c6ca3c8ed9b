package planted

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Values are what the package says of them, and no two have the same core.
func TestValues(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9:.-]+$`)
	for _, first := range []uint64{1, 3_000_000} {
		seen := map[string]string{}
		for n := first; n < first+3000; n++ {
			each(n, func(p Place, v Value) {
				who := fmt.Sprintf("%s in %s of %d", v.Class, p, n)
				if !form.MatchString(v.Core) || len(v.Core) < MinCore || !strings.Contains(v.Text, v.Core) {
					t.Fatalf("%s: core %q of %q", who, v.Core, v.Text)
				}
				if other, ok := seen[v.Core]; ok {
					t.Fatalf("%s and %s are both %q", other, who, v.Core)
				}
				seen[v.Core] = who
			})
		}
	}
}

// Each kind of secret is in each place once, of as many requests as there are kinds.
func TestEveryKindIsInEveryPlace(t *testing.T) {
	count := func(decoys bool, requests int) map[string]int {
		seen := map[string]int{}
		for n := range uint64(requests) { //nolint:gosec // a few
			each(n, func(p Place, v Value) {
				if v.Decoy == decoys {
					seen[v.Class+" in "+string(p)]++
				}
			})
		}
		return seen
	}
	for _, c := range []struct {
		seen  map[string]int
		cells int
	}{
		{count(false, len(Secrets)), len(Secrets) * len(Places)},
		{count(true, len(Decoys)), len(Decoys) * len(decoyed)},
	} {
		assert.Equal(t, c.cells, len(c.seen))
		for cell, n := range c.seen {
			assert.Equal(t, 1, n, "%s: times", cell)
		}
	}
}

func TestCheckDigits(t *testing.T) {
	for n := range uint64(200) {
		for off, want := range []bool{true, false} {
			number, _ := card(n, off)
			sum := 0
			for i := range number {
				d := int(number[i] - '0')
				if i%2 == 0 {
					d = d*2/10 + d*2%10
				}
				sum += d
			}
			if valid := sum%10 == 0; valid != want || len(number) != 16 {
				t.Errorf("card %s: valid %v, want %v", number, valid, want)
			}
			account := digits(n, 14)
			rest := 0
			for _, c := range account + "1518" + ibanCheck("FI", account, off) { // F is 15, I is 18
				rest = (rest*10 + int(c-'0')) % 97
			}
			if valid := rest == 1; valid != want {
				t.Errorf("IBAN of %s: valid %v, want %v", account, valid, want)
			}
		}
	}
	// The example of the Finnish Digital and Population Data Services Agency.
	assert.Equal(t, "131052-308T", identityCode(13, 10, 52, 308))
}

func TestNumber(t *testing.T) {
	path, _, _ := strings.Cut(string(AppendPath(nil, 1234)), "?")
	segment, ok := strings.CutPrefix(path, Path)
	if n, err := Number(segment); !ok || n != 1234 || err != nil {
		t.Errorf("%s: %d, %v", path, n, err)
	}
	for _, wrong := range []string{"", "7", ".json", "x.json", "-1.json", "7.json.json"} {
		if _, err := Number(wrong); err == nil {
			t.Errorf("%q is a number", wrong)
		}
	}
}
