package integration

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/lab/load"
)

var screenshots = flag.String("screenshots", "", "directory that gets the pictures of README.md (make screenshots)")

// maxScreenshot is what a picture of README.md may take.
const maxScreenshot = 150_000 // bytes

// A trace of a real chain on the page, as README.md shows it.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	need(t, "redis-server", "memcached", "chromium")
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	c := start(t, "shop")
	w := runWhole(t, "", ports(c)...)
	var shown string
	testkit.Until(t, time.Minute, "a trace of all services is complete", func() bool {
		send(t, load.Options{Addr: c.Entry, Connections: 4, Requests: 200, AppendPath: c.AppendPath})
		for _, found := range w.traces("state=complete&service=proxy") {
			if found.Spans >= 9 {
				shown = found.TraceID
			}
		}
		return shown != ""
	})
	photograph(t, "http://"+w.page+"/#/trace/"+shown, filepath.Join(dir, "trace.png"))
}

// photograph writes a picture of a page that Chromium shows.
func photograph(t *testing.T, url, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--window-size=1120,500", "--virtual-time-budget=10000", "--screenshot="+file, url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[any]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			colours[picture.At(x, y)] = true
		}
	}
	if len(content) > maxScreenshot || len(colours) < 50 { // an empty page has a few
		t.Errorf("%s: %d bytes, want at most %d; %d colours", file, len(content), maxScreenshot, len(colours))
	}
}
