package rule_test

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/rule"
)

func ExampleParse() {
	r, err := rule.Parse([]byte(`{"kind":"server","attributes":{"url.path":"/auth/**"}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Matches(rule.Span{
		Name: "POST /auth/login", Kind: trace.SpanKindServer,
		Attributes: []attribute.KeyValue{attribute.String("url.path", "/auth/login")},
	}))
	_, err = rule.Parse([]byte(`{"kind":"server","attributes":{"url.path":"~("}}`))
	fmt.Println(err)
	// Output:
	// true
	// rule {"kind":"server","attributes":{"url.path":"~("}}: attribute url.path: pattern "~(": error parsing regexp: missing closing ): `(`
}

func ExampleList() {
	list := rule.NewList(
		rule.Entry[string]{Rule: rule.MustCompile(rule.Spec{Name: "GET /health*"}), Value: "never"},
		rule.Entry[string]{Rule: rule.MustCompile(rule.Spec{Kind: "server"}), Value: "often"},
	)
	for _, name := range []string{"GET /healthz", "GET /orders"} {
		what, ok := list.Match(rule.Span{Name: name, Kind: trace.SpanKindServer})
		fmt.Println(name, what, ok)
	}
	// Output:
	// GET /healthz never true
	// GET /orders often true
}
