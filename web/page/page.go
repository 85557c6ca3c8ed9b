// Package page is Tare's web page: plain HTML, CSS and ES modules, without a build step.
// It only contains the files; package web serves them beside the JSON API that they read.
//
// The page requests nothing from other hosts, and stores only the choice of light or dark
// and the width of a column in the browser. It shows the contents of spans as text only,
// never as markup, because service and span names come from requests, and so from
// anybody. It works under Content-Security-Policy default-src 'self', which forbids
// inline scripts and styles. Its URLs are relative, so that it also works below a path.
package page

import (
	"embed"
	"io/fs"
)

//go:embed assets
var embedded embed.FS

// Assets holds the page's files: index.html, scripts (.js), styles (.css) and icon.svg.
// Views differ in the URL's fragment (#/traces, #/trace/ID, #/compare?a=ID&b=ID, #/diagnose, #/map, #/health), so that
// index.html is the only document.
var Assets = mustSub(embedded, "assets")

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // dir is a constant and a valid path
	}
	return sub
}
