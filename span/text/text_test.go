package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	long := strings.Repeat("ä", 450_000)
	seen := map[string]bool{}
	for _, s := range []string{long, long + "a", long + "b", "x" + long, "xy" + long, strings.Repeat("\x80", 5000), strings.Repeat("a", 1025)} {
		got := Name(s, 1024)
		if len(got) > 1024 || len(got) < 1021 || utf8.ValidString(got) != utf8.ValidString(s) || seen[got] {
			t.Errorf("%.20q of %d bytes: %d bytes, %.20q … %q", s, len(s), len(got), got, got[len(got)-25:])
		}
		seen[got] = true
		kept, mark := Split(got)
		if len(mark) != 20 || kept+mark != got || !strings.HasPrefix(s, kept) {
			t.Errorf("%d bytes and %q of a cut name", len(kept), mark)
		}
		if Name(got, 1024) != got {
			t.Error("a cut name is cut again")
		}
	}
	for _, s := range []string{"", "GET /", strings.Repeat("a", 1024)} {
		if got := Name(s, 1024); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := Name(long, 0); len(got) > MinBound {
		t.Errorf("%d bytes of a name with a bound that is too small", len(got))
	}
}

func TestValue(t *testing.T) {
	for n := 900_000; n < 900_004; n++ {
		s := strings.Repeat("a", n) + strings.Repeat("€", 100)
		got := Value(s, 2048)
		kept, mark := Split(got)
		if len(got) > 2048 || len(got) < 2044 || mark != fmt.Sprintf("…[+%d bytes]", len(s)-len(kept)) || !strings.HasPrefix(s, kept) {
			t.Errorf("%d bytes: %d, %q", len(s), len(got), got[len(got)-25:])
		}
	}
}

func TestSplitOfOthers(t *testing.T) {
	for _, s := range []string{"", "a", "Loading…", "…#", "x…#0123456789abcdeX", "x…[+ bytes]", "x…[+1x bytes]", "[+12 bytes]", strings.Repeat("a", 100)} {
		if kept, mark := Split(s); kept != s || mark != "" {
			t.Errorf("%q: %q, %q", s, kept, mark)
		}
	}
}

func TestFinished(t *testing.T) {
	words := strings.Repeat("word ", 100)
	for in, want := range map[string]string{
		"":                                      "",
		"short":                                 "",
		words:                                   words[:500-128],
		words + strings.Repeat("t", 100):        words[:600-128],
		words + strings.Repeat("ey.J-_/=", 100): words,
		words + "x(" + strings.Repeat("t", 300): words + "x(",
		strings.Repeat("ä", 300) + " " + strings.Repeat("b", 127): strings.Repeat("ä", 300),
		strings.Repeat("\x80", 300) + " ":                         "",
	} {
		if got := Finished(in); got != want {
			t.Errorf("of %d bytes %d are finished, want %d", len(in), len(got), len(want))
		}
	}
}

func TestState(t *testing.T) {
	member := func(key string, n int) string { return key + "=" + strings.Repeat("v", n-len(key)-1) }
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"ot=th:8", "ot=th:8"},
		{"ot=th:8," + member("a", 900_000), "ot=th:8"},
		{member("a", 900_000) + ",ot=th:8", "ot=th:8"},
		{member("a", 128) + "," + member("b", 128) + "," + member("c", 128) + "," + member("d", 128), member("a", 128) + "," + member("b", 128) + "," + member("c", 128)},
		{strings.Repeat("x", 600), ""},
	} {
		if got := State(c.in, MaxState); got != c.want {
			t.Errorf("%.40q…: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"GET /größe/日本 \U0001f600": "GET /größe/日本 \U0001f600",
		"שלום":                     "שלום",
		"a\x1b[31mb":               `a\u001b[31mb`,
		"\x1b]0;title\x07":         `\u001b]0;title\u0007`,
		"a\u009b2Jb":               `a\u009b2Jb`,
		"a\r\n\tb\x00\x7f":         `a\r\n\tb\u0000\u007f`,
		"pay\u202egnp.exe":         `pay\u202egnp.exe`,
		"ad\u200bmin\ufeff":        `ad\u200bmin\ufeff`,
		"x\u2028y\u2029":           `x\u2028y\u2029`,
		"soft\u00adhyphen":         `soft\u00adhyphen`,
		"filler\u3164\u115f":       `filler\u3164\u115f`,
		"tag\U000e0041":            `tag\udb40\udc41`,
		"not\xffUTF-8\xc3":         `not\xffUTF-8\xc3`,
		"\ufffd":                   "\ufffd",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := Lines("a\n\tb\x1b\r\n\u202e"); got != "a\n\tb\\u001b\\r\n\\u202e" {
		t.Errorf("several lines: %q", got)
	}
	for _, r := range [][2]rune{{0, 0x1f}, {0x7f, 0x9f}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}} {
		for c := r[0]; c <= r[1]; c++ {
			if got := Visible(string(c)); strings.ContainsRune(got, c) {
				t.Errorf("%U is shown as it is", c)
			}
		}
	}
}

// The Writer writes the same, wherever its input is split, and JSON means the same afterwards.
func TestWriter(t *testing.T) {
	names := []string{"pay\u202egnp.exe", "\u009b2J", "größe 日本 \U0001f600", "tag\U000e0041", "\x7f\u200b", "a\nb\tc"}
	plain, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	in := string(plain) + "\n\ta\x1b[31m\xff\n"
	for size := 1; size < len(in); size++ {
		var out strings.Builder
		w := NewWriter(&out)
		for rest := []byte(in); len(rest) > 0; {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		line, tail, _ := strings.Cut(out.String(), "\n")
		var got []string
		if err := json.Unmarshal([]byte(line), &got); err != nil || !slices.Equal(got, names) {
			t.Fatalf("by %d: %v, %q", size, err, got)
		}
		if tail != "\ta\\u001b[31m\\xff\n" || strings.ContainsAny(out.String(), "\u202e\u009b\x7f\u200b\x1b") {
			t.Fatalf("by %d: %q", size, out.String())
		}
	}
	w := NewWriter(failing{})
	if _, err := w.Write([]byte("a")); err == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("it is closed") }

func FuzzVisible(f *testing.F) {
	f.Add("a\u202eb\x1b\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q: %U is left", s, r)
			}
		}
		if Visible(got) != got || !utf8.ValidString(got) {
			t.Errorf("%q: %q", s, got)
		}
	})
}

func FuzzCut(f *testing.F) {
	f.Add(strings.Repeat("aä€", 100), 80)
	f.Fuzz(func(t *testing.T, s string, most int) {
		for _, cut := range []func(string, int) string{Name, Value} {
			got := cut(s, most)
			if len(got) > max(most, MinBound) && got != s || cut(got, most) != got || utf8.ValidString(s) && !utf8.ValidString(got) {
				t.Errorf("%d bytes to %d: %d", len(s), most, len(got))
			}
		}
	})
}
