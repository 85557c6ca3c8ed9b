package page_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-trace/tare/web/page"
)

var (
	parsesMarkup = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|setHTMLUnsafe`)
	foreign      = regexp.MustCompile(`(?:https?:)?//[a-z0-9][a-z0-9.-]*`)
	imported     = regexp.MustCompile(`(?:from|import) '\./([^']+)'`)
	referenced   = regexp.MustCompile(`(?:href|src)="([^"#:]+)"`)
)

// Checks that need no browser: every referenced file exists, no code turns text into
// markup, and nothing refers to another host.
func TestAssets(t *testing.T) {
	err := fs.WalkDir(page.Assets, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(page.Assets, name)
		if err != nil {
			return err
		}
		text := string(b)
		if found := parsesMarkup.FindString(text); found != "" {
			t.Errorf("%s uses %s: text must stay text", name, found)
		}
		for _, url := range foreign.FindAllString(text, -1) {
			if url != "http://www.w3.org" && url != "http://127.0.0.1" { // SVG's namespace; an example in words
				t.Errorf("%s names another host: %s", name, url)
			}
		}
		var needs [][]string
		switch path.Ext(name) {
		case ".js":
			needs = imported.FindAllStringSubmatch(text, -1)
		case ".html":
			needs = referenced.FindAllStringSubmatch(text, -1)
			if strings.Contains(text, "style=") || strings.Contains(text, "onclick=") || strings.Contains(text, "<script>") {
				t.Errorf("%s has inline code or style, which the Content-Security-Policy forbids", name)
			}
		}
		for _, need := range needs {
			if strings.HasPrefix(need[1], "api/") {
				continue
			}
			if _, err := fs.Stat(page.Assets, need[1]); err != nil {
				t.Errorf("%s needs %s: %v", name, need[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
