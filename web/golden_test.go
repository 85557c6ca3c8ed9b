package web_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tare-trace/tare/web"
)

var update = flag.Bool("update", false, "write the golden files")

// volatile is what the store chooses: its size on disk, and how it says where a
// page of results ended.
var volatile = regexp.MustCompile(`"(bytes|next)": ("[^"]+"|[0-9]+)`)

// The answers of both APIs to the shop, from a real store, over HTTP.
func TestGolden(t *testing.T) {
	s := serve(t, web.Options{Store: shop(t), Version: "v1.2.3"})
	const whole, cut = "0a000000000000000000000000000001", "0a000000000000000000000000000003"
	const day = "start=2024-05-01T00:00:00Z&end=2024-05-02T00:00:00Z"
	const jaegerDay = "start=1714521600000000&end=1714608000000000"
	for name, c := range map[string]struct {
		path   string
		status int
	}{
		"services":              {"/api/v1/services", 200},
		"operations":            {"/api/v1/operations?service=web", 200},
		"traces":                {"/api/v1/traces?" + day, 200},
		"traces-limit":          {"/api/v1/traces?limit=1&" + day, 200},
		"traces-error":          {"/api/v1/traces?status=error&service=web&" + day, 200},
		"traces-none":           {"/api/v1/traces?service=nobody", 200},
		"traces-wrong":          {"/api/v1/traces?limit=0", 400},
		"traces-longest":        {"/api/v1/traces?sort=duration&" + day, 200},
		"overview":              {"/api/v1/overview?columns=24&" + day, 200},
		"overview-error":        {"/api/v1/overview?status=error&" + day, 200},
		"overview-wrong":        {"/api/v1/overview?limit=5", 400},
		"trace":                 {"/api/v1/traces/" + whole, 200},
		"trace-bare":            {"/api/v1/traces/" + whole + "?attributes=false", 200},
		"trace-incomplete":      {"/api/v1/traces/" + cut, 200},
		"trace-missing":         {"/api/v1/traces/0a0000000000000000000000000000ff", 404},
		"trace-wrong":           {"/api/v1/traces/xyz", 400},
		"trace-otlp":            {"/api/v1/traces/" + cut + "/otlp", 200},
		"span":                  {"/api/v1/traces/" + whole + "/spans/0000000000000004", 200},
		"span-missing":          {"/api/v1/traces/" + whole + "/spans/00000000000000ff", 404},
		"diagnose":              {"/api/v1/diagnose?share=0.2&" + day, 200},
		"diagnose-wrong":        {"/api/v1/diagnose?min=3ms", 400},
		"map":                   {"/api/v1/map?" + day, 200},
		"latencies":             {"/api/v1/latencies?" + day, 200},
		"latencies-operation":   {"/api/v1/latencies?by=operation&service=web&" + day, 200},
		"health":                {"/api/v1/health", 200},
		"stats":                 {"/api/v1/stats", 200},
		"unknown":               {"/api/v1/nothing", 404},
		"jaeger-services":       {"/api/services", 200},
		"jaeger-operations":     {"/api/operations?service=web&spanKind=server", 200},
		"jaeger-operations-old": {"/api/services/web/operations", 200},
		"jaeger-traces":         {"/api/traces?service=web&limit=20&" + jaegerDay, 200},
		"jaeger-traces-error":   {"/api/traces?service=web&tags=%7B%22error%22%3A%22true%22%7D&" + jaegerDay, 200},
		"jaeger-traces-none":    {"/api/traces?service=nobody&" + jaegerDay, 200},
		"jaeger-traces-wrong":   {"/api/traces?service=web&limit=x", 400},
		"jaeger-traces-ids":     {"/api/traces?traceID=" + cut + "&traceID=ff", 200},
		"jaeger-trace":          {"/api/traces/" + whole, 200},
		"jaeger-trace-missing":  {"/api/traces/ff", 404},
		"jaeger-dependencies":   {"/api/dependencies?endTs=1714608000000&lookback=86400000", 200},
		"jaeger-unknown":        {"/api/archive/ff", 404},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := http.Get(s.URL + c.path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != c.status {
				t.Fatalf("%s: %s, %v", res.Status, body, err)
			}
			if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("content type %s", got)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, body, "", "  "); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			got := volatile.ReplaceAll(indented.Bytes(), []byte(`"$1": "VARIES"`))
			file := filepath.Join("testdata", "golden", name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("not as in %s:\n%s", file, got)
			}
		})
	}
}
