package report

import (
	"bytes"
	_ "embed" // the template and the style
	"fmt"
	"html/template"
	"strings"

	"github.com/tare-trace/tare/lab/record"
)

//go:embed page.html
var page string

//go:embed style.css
var stylesheet string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	//nolint:gosec // of this package, not of the data
	"style":   func() template.CSS { return template.CSS(stylesheet) },
	"palette": swatches,
}).Parse(page))

// swatches are the classes of the legends' colours.
func swatches() template.CSS {
	var b strings.Builder
	for i, c := range palette {
		fmt.Fprintf(&b, ".s%d { background: #%02x%02x%02x; }\n", i, c.R, c.G, c.B)
	}
	return template.CSS(b.String()) //nolint:gosec // of this package, not of the data
}

// html is the page with everything: one file that fetches nothing.
func (v *view) html(runs []record.Run) ([]byte, error) {
	v.lost(runs)
	for i := range v.Figures {
		if err := v.Figures[i].draw(); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return b.Bytes(), nil
}
