// Package page is the web page of Tare: plain HTML, CSS and ES modules, which a
// browser runs as they stand. It is files and nothing else: package web serves
// them beside the JSON API that they read.
//
// The page asks no other host for anything, keeps nothing but the choice of
// light or dark (and the width of a column) in the browser, and puts what
// comes from spans on the screen as text only, never as markup: service and
// span names come from requests, and so from anybody. It works under
// Content-Security-Policy default-src 'self', which forbids inline scripts and
// styles. Its addresses are relative, so that it also works below a path.
package page

import (
	"embed"
	"io/fs"
)

//go:embed assets
var embedded embed.FS

// Assets holds the page's files at its top: index.html, scripts (.js), styles
// (.css) and icon.svg. Views are told apart by the fragment of the address
// (#/traces, #/trace/ID, #/map, #/health), so that index.html is the only
// document.
var Assets = mustSub(embedded, "assets")

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // dir is a constant and a valid path
	}
	return sub
}
