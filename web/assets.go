package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"
)

// assets are the page's files, with the hash of each as its ETag: a browser revalidates
// each time, and gets 304 unless tare was replaced.
type assets struct {
	files map[string]asset
}

type asset struct {
	body []byte
	etag string
	kind string
}

func newAssets(from fs.FS) *assets {
	a := &assets{files: map[string]asset{}}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		// Weak, because compressed and uncompressed responses share it.
		a.files["/"+name] = asset{body, `W/"` + hex.EncodeToString(sum[:12]) + `"`, contentType(name)}
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("web: the embedded page cannot be read: %v", err))
	}
	return a
}

// contentType ignores the machine's mime.types: with nosniff, a script of a wrong type
// does not run.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json", ".webmanifest":
		return "application/json; charset=utf-8"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// ServeHTTP serves a file. The page's views differ only in the URL's fragment, so that no
// other path is a view.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read: GET", http.StatusMethodNotAllowed)
		return
	}
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	f, ok := a.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
