package redact_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/redact"
)

// benchSpan is a span of an HTTP server with 10 attributes and one exception;
// dirty has an e-mail address, a token in the query, a password and a card.
func benchSpan(b *testing.B, dirty bool) sdktrace.ReadOnlySpan {
	b.Helper()
	query, agent, failure, key, note := "id=4711&sort=price", "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0", "dial tcp 10.0.0.7:5432: connect: connection refused", "shop.note", "regular"
	if dirty {
		query, failure, key, note = "id=4711&access_token=9f8e7d6c5b4a", "no such user: anna.schmidt@example.com (password=hunter2)", "shop.card", "4111 1111 1111 1111"
	}
	memory := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.version", "1.2.3"))))
	_, s := tp.Tracer("bench").Start(context.Background(), "GET /api/v1/items/{id}", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", "GET"), attribute.String("url.scheme", "https"), attribute.String("url.path", "/api/v1/items/4711"),
		attribute.String("url.query", query), attribute.String("http.route", "/api/v1/items/{id}"), attribute.Int("http.response.status_code", 200),
		attribute.String("server.address", "shop.internal"), attribute.Int("server.port", 8443), attribute.String("user_agent.original", agent), attribute.String(key, note),
	))
	s.RecordError(errors.New(failure))
	s.End()
	span := memory.GetSpans().Snapshots()[0]
	if err := tp.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
	return span
}

// rulesOf makes n rules of a kind, none of which a clean span matches. The
// dirty span matches one of each kind but detectors, which n caps.
func rulesOf(kind string, n int) redact.Config {
	var c redact.Config
	all := redact.Default().Rules
	for i := range n {
		r := redact.Rule{Name: fmt.Sprintf("r%d", i), Do: redact.Mask}
		switch kind {
		case "keys":
			r.Keys = []string{fmt.Sprintf("app.secret%d.*", i)}
			if i == n-1 {
				r.Keys = []string{"shop.card"}
			}
		case "names":
			r.Names = []string{fmt.Sprintf("*param%d", i)}
			if i == n-1 {
				r.Names = []string{"*access_token"}
			}
		case "literal": // patterns that need a literal
			r.Pattern = fmt.Sprintf(`CUST%d-[0-9]{6,}`, i)
			if i == n-1 {
				r.Pattern = `hunter[0-9]+`
			}
		case "regexp": // patterns that have to be run
			r.Pattern = fmt.Sprintf(`[A-Z]{%d}[0-9]{6,}`, 3+i%5)
			if i == n-1 {
				r.Pattern = `[a-z.]+@[a-z]+\.com`
			}
		case "detectors":
			if i+7 >= len(all) {
				return c
			}
			r = all[i+7]
		}
		c.Rules = append(c.Rules, r)
	}
	return c
}

func run(b *testing.B, c redact.Config, dirty bool) {
	r, err := redact.New(c)
	if err != nil {
		b.Fatal(err)
	}
	s := benchSpan(b, dirty)
	b.ReportAllocs()
	for b.Loop() {
		r.Span(s)
	}
}

func content(dirty bool) string {
	if dirty {
		return "dirty"
	}
	return "clean"
}

// BenchmarkRules answers the question that the thesis leaves open (6.4): the
// cost of a span by the number of rules.
func BenchmarkRules(b *testing.B) {
	for _, dirty := range []bool{false, true} {
		b.Run("none/"+content(dirty), func(b *testing.B) { run(b, redact.Config{}, dirty) })
		for _, kind := range []string{"keys", "names", "detectors", "literal", "regexp"} {
			for _, n := range []int{1, 5, 20, 100} {
				if kind == "detectors" && n > 5 {
					n = 8 // there are no more
				}
				b.Run(fmt.Sprintf("%s=%d/%s", kind, n, content(dirty)), func(b *testing.B) { run(b, rulesOf(kind, n), dirty) })
				if kind == "detectors" && n == 8 {
					break
				}
			}
		}
	}
}

func BenchmarkConfigs(b *testing.B) {
	optional := redact.Default()
	optional.Rules = append(optional.Rules, redact.Rule{Name: "ip", Detect: redact.IP, Do: redact.Mask}, redact.Rule{Name: "ssn", Detect: redact.SSN, Do: redact.Mask}, redact.Rule{Name: "entropy", Detect: redact.Entropy, Do: redact.Mask})
	allow := redact.Default()
	allow.Allow = &redact.AllowList{Safe: true}
	hash := redact.Default()
	for i := range hash.Rules {
		if hash.Rules[i].Do == redact.Mask && hash.Rules[i].Detect != redact.Query {
			hash.Rules[i].Do = redact.Hash
		}
	}
	hash.Hash.Key = "0123456789abcdef"
	for _, c := range []struct {
		name   string
		config redact.Config
	}{{"Default", redact.Default()}, {"optional", optional}, {"allow", allow}, {"hash", hash}} {
		for _, dirty := range []bool{false, true} {
			b.Run(c.name+"/"+content(dirty), func(b *testing.B) { run(b, c.config, dirty) })
		}
	}
}

func BenchmarkText(b *testing.B) {
	r, err := redact.New(redact.Default())
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]string{
		"method": "GET", "message": "dial tcp 10.0.0.7:5432: connect: connection refused",
		"url": "https://shop.example/api/v1/items?id=4711&sort=price", "email": "no such user: anna.schmidt@example.com",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			for b.Loop() {
				r.Text(s)
			}
		})
	}
}

func BenchmarkParallel(b *testing.B) {
	r, err := redact.New(redact.Default())
	if err != nil {
		b.Fatal(err)
	}
	s := benchSpan(b, false)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Span(s)
		}
	})
}
