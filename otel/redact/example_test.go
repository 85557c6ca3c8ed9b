package redact_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tare-trace/tare/otel/redact"
)

func ExampleNewExporter() {
	config, err := redact.FromEnv() // REDACT_CONFIG, or Default
	if err != nil {
		log.Fatal(err)
	}
	r, err := redact.New(config)
	if err != nil {
		log.Fatal(err)
	}
	exporter := tracetest.NewInMemoryExporter() // in a service: OTLP
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(redact.NewExporter(exporter, r)))

	_, span := provider.Tracer("shop").Start(context.Background(), "login")
	span.SetAttributes(attribute.String("url.full", "https://shop.example/login?user=anna&token=9f8e7d"))
	span.RecordError(fmt.Errorf("no account for anna@example.com"))
	span.End()

	if err := provider.ForceFlush(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Attributes[0].Value.AsString())
		fmt.Println(s.Events[0].Attributes[1].Value.AsString())
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// https://shop.example/login?user=anna&token=REDACTED
	// no account for REDACTED
}

func ExampleParse() {
	config, err := redact.Parse([]byte(`{
		"rules": [
			{"name": "user", "keys": ["enduser.*", "user.*"], "do": "hash"},
			{"name": "ticket", "pattern": "TCK-([0-9]+)", "do": "keep", "keep": 2}
		],
		"hash": {"key": "for examples only", "id": "a", "bits": 64}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	r, err := redact.New(config)
	if err != nil {
		log.Fatal(err)
	}
	user, _ := r.Attribute(attribute.String("user.id", "anna"))
	again, _ := r.Attribute(attribute.String("enduser.id", "anna"))
	fmt.Println(user.Value == again.Value, len(user.Value.AsString()))
	fmt.Println(r.Text("closed TCK-123456"))
	// Output:
	// true 27
	// closed TCK-***56
}

func ExampleAllowList() {
	config := redact.Default()
	config.Allow = &redact.AllowList{Safe: true, Keys: []string{"shop.*"}}
	r, err := redact.New(config)
	if err != nil {
		log.Fatal(err)
	}
	for _, kv := range []attribute.KeyValue{
		attribute.String("http.route", "/items/{id}"),
		attribute.String("shop.note", "call +49 30 1234567"),
		attribute.String("debug.body", "who knows"),
	} {
		if kv, ok := r.Attribute(kv); ok {
			fmt.Println(kv.Key, kv.Value.AsString())
		}
	}
	fmt.Println(r.Stats().NotAllowed, "dropped")
	// Output:
	// http.route /items/{id}
	// shop.note call REDACTED
	// 1 dropped
}

func ExampleRedactor_Text() {
	r, err := redact.New(redact.Default())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Text(`dial postgres://app:s3cr3t@db:5432/shop: {"card":"4111 1111 1111 1111"}`))
	// Output: dial postgres://REDACTED:REDACTED@db:5432/shop: {"card":"REDACTED"}
}

// A pipeline whose values are not the SDK's.
func ExampleKey() {
	r, err := redact.New(redact.Default())
	if err != nil {
		log.Fatal(err)
	}
	for _, field := range [][2]string{{"user.email", "anna@example.com"}, {"note", "card 4111 1111 1111 1111"}, {"process.command_line", "app -p x"}} {
		if k := r.Key(field[0]); k.Leaves(true) {
			fmt.Println(k.Name(), "=", k.Text(field[1]))
		}
	}
	// Output:
	// user.email = REDACTED
	// note = card REDACTED
}
