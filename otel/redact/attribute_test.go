package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
)

func attr(t testing.TB, r *Redactor, key, value string) (string, bool) {
	t.Helper()
	kv, ok := r.Attribute(attribute.String(key, value))
	return kv.Value.AsString(), ok
}

func TestKeys(t *testing.T) {
	r := mustNew(t, Default())
	for _, c := range []struct {
		key, in, want string
		leaves        bool
	}{
		{"password", "x", "REDACTED", true},
		{"app.db.Password", "x", "REDACTED", true},
		{"http.request.header.authorization", "x", "REDACTED", true},
		{"http.request.header.set-cookie", "x", "REDACTED", true},
		{"rpc.request.metadata.x-api-key", "x", "REDACTED", true},
		{"app.apiKey", "x", "REDACTED", true},
		{"app.ACCESS TOKEN", "x", "REDACTED", true},
		{"enduser.id", "bob", "REDACTED", true},
		{"gen_ai.token.type", "input", "input", true},
		{"gen_ai.usage.input_tokens", "12", "12", true},
		{"http.route", "/users/{id}", "/users/{id}", true},
		{"process.command_line", "app --password x", "", false},
		{"client.address", "203.0.113.77", "203.0.113.0", true},
		{"client.address", "2001:db8:1:2::3", "2001:db8:1::", true},
		{"client.address", "/run/socket", "/run/socket", true},
		{"http.request.header.x-forwarded-for", "203.0.113.77, 198.51.100.9", "203.0.113.0, 198.51.100.0", true},
		{"server.address", "203.0.113.77", "203.0.113.77", true},
		{"url.full", "https://h/?token=a", "https://h/?token=REDACTED", true},
		{"exception.stacktrace", "panic: bob@example.com\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:9 +0x1d", "panic: REDACTED\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:9 +0x1d", true},
	} {
		got, ok := attr(t, r, c.key, c.in)
		if got != c.want || ok != c.leaves {
			t.Errorf("%s=%q: got %q, %v, want %q, %v", c.key, c.in, got, ok, c.want, c.leaves)
		}
	}
	if kv, _ := r.Attribute(attribute.String("clicks.bob@example.com", "1")); kv.Key != "REDACTED" && strings.Contains(string(kv.Key), "bob") {
		t.Errorf("key leaves as %q", kv.Key)
	}
}

func TestTypes(t *testing.T) {
	r := mustNew(t, Default())
	mail, clean := attribute.StringValue("a@b.io"), attribute.StringValue("x")
	masked := attribute.StringValue("REDACTED")
	deep := mail
	for range nesting + 2 {
		deep = attribute.SliceValue(deep)
	}
	for _, c := range []struct {
		name     string
		in, want attribute.KeyValue
	}{
		{"int key", attribute.Int("pin", 1234), attribute.String("pin", "REDACTED")},
		{"bool key", attribute.Bool("secret", true), attribute.String("secret", "REDACTED")},
		{"int card", attribute.Int("n", 4111111111111111), attribute.String("n", "REDACTED")},
		{"int", attribute.Int("n", 4111111111111112), attribute.Int("n", 4111111111111112)},
		{"float card", attribute.Float64("n", 4111111111111111), attribute.String("n", "REDACTED")},
		{"int cards", attribute.IntSlice("n", []int{1, 4111111111111111}), attribute.StringSlice("n", []string{"1", "REDACTED"})},
		{"float cards", attribute.Float64Slice("n", []float64{1.5, 4111111111111111}), attribute.StringSlice("n", []string{"1.5", "REDACTED"})},
		{"strings", attribute.StringSlice("n", []string{"x", "a@b.io"}), attribute.StringSlice("n", []string{"x", "REDACTED"})},
		{"strings key", attribute.StringSlice("cookie", []string{"x", "y"}), attribute.StringSlice("cookie", []string{"REDACTED", "REDACTED"})},
		{"bytes", attribute.KeyValue{Key: "n", Value: attribute.ByteSliceValue([]byte("to a@b.io"))}, attribute.KeyValue{Key: "n", Value: attribute.ByteSliceValue([]byte("to REDACTED"))}},
		{"slice", attribute.KeyValue{Key: "n", Value: attribute.SliceValue(mail, clean)}, attribute.KeyValue{Key: "n", Value: attribute.SliceValue(masked, clean)}},
		{"map", attribute.KeyValue{Key: "n", Value: attribute.MapValue(attribute.String("password", "x"), attribute.String("process.command_line", "x"), attribute.Bool("b", true))},
			attribute.KeyValue{Key: "n", Value: attribute.MapValue(attribute.String("password", "REDACTED"), attribute.Bool("b", true))}},
		{"empty", attribute.KeyValue{Key: "n"}, attribute.KeyValue{Key: "n"}},
	} {
		got, ok := r.Attribute(c.in)
		if !ok || got.Key != c.want.Key || got.Value != c.want.Value {
			t.Errorf("%s: got %s=%v (%v)", c.name, got.Key, got.Value.AsInterface(), got.Value.Type())
		}
	}
	if kv, _ := r.Attribute(attribute.KeyValue{Key: "n", Value: deep}); strings.Contains(kv.Value.String(), "a@b.io") {
		t.Error("an address below the depth that is looked at has left")
	}
	assert.EqualValues(t, 1, r.Stats().Unsettled)
}

func TestActions(t *testing.T) {
	r := mustNew(t, Config{
		Rules: []Rule{
			{Name: "keep", Keys: []string{"keep"}, Do: Keep},
			{Name: "cut", Keys: []string{"cut"}, Do: Truncate, Length: 10},
			{Name: "gone", Names: []string{"gone"}, Do: Remove},
			{Name: "hashed", Keys: []string{"user"}, Names: []string{"uid"}, Do: Hash},
			{Name: "mail", Detect: Email, Do: Hash},
			{Name: "card", Detect: Card, Do: Keep},
			{Name: "ticket", Pattern: `TCK-(\d+)`, Do: Mask, Text: "n", Except: []string{"ticket"}},
		},
		Hash: Hashing{Key: "0123456789abcdef", ID: "k1"},
	})
	for _, c := range []struct{ key, in, want string }{
		{"keep", "1234567890", "***7890"},
		{"keep", "12345", "***"},
		{"cut", "éééééééééééééé", "éééééééééé"},
		{"cut", "pay 4111111111111111", "pay ***111"},
		{"q", `a=1&gone=x&b=2`, `a=1&&b=2`},
		{"q", `TCK-123 TCK-x`, `TCK-n TCK-x`},
		{"ticket", `TCK-123`, `TCK-123`},
		{"q", "4111 1111 1111 1111", "***1111"},
	} {
		if got, _ := attr(t, r, c.key, c.in); got != c.want {
			t.Errorf("%s=%q: got %q, want %q", c.key, c.in, got, c.want)
		}
	}
	user, _ := attr(t, r, "user", "bob@example.com")
	inside, _ := attr(t, r, "q", "from Bob@example.com: hi")
	if !strings.HasPrefix(user, "hmac-k1-") || inside != "from "+user+": hi" {
		t.Errorf("one address, two tokens: %q, %q", user, inside)
	}
	if again, _ := attr(t, r, "user", user); again != user {
		t.Errorf("a token was hashed: %q", again)
	}
	forged := "hmac-k1-" + strings.Repeat("0", 28)
	if got, _ := attr(t, r, "user", forged); got == forged {
		t.Error("a value that looks like a token leaves")
	}
}

func TestAllowList(t *testing.T) {
	c := Default()
	c.Allow = &AllowList{Safe: true, Keys: []string{"shop.*"}}
	r := mustNew(t, c)
	for key, leaves := range map[string]bool{"http.route": true, "shop.cart": true, "app.x": false, "url.full": false, "x.http.route": false} {
		if _, ok := attr(t, r, key, "v"); ok != leaves {
			t.Errorf("%s: leaves %v, want %v", key, ok, leaves)
		}
	}
	if got, _ := attr(t, r, "shop.note", "a@b.io"); got != "REDACTED" {
		t.Errorf("an allowed value is not looked at: %q", got)
	}
	if got, _ := attr(t, r, "shop.password", "x"); got != "REDACTED" {
		t.Errorf("the key rule does not win: %q", got)
	}
	assert.EqualValues(t, 3, r.Stats().NotAllowed)
	res := r.Resource(resource.NewSchemaless(attribute.String("service.name", "s"), attribute.String("owner", "bob")))
	assert.Equal(t, "service.name=s", res.String(), "resource")
}

func TestResourceAndScope(t *testing.T) {
	r := mustNew(t, Default())
	clean := resource.NewSchemaless(attribute.String("service.name", "s"))
	if r.Resource(clean) != clean || r.Resource(nil) != nil {
		t.Error("a clean resource is copied")
	}
	dirty := resource.NewWithAttributes("https://opentelemetry.io/schemas/1.43.0", attribute.String("service.name", "s"), attribute.String("db.url", "pg://u:p@h"))
	out := r.Resource(dirty)
	if got := out.String(); got != `db.url=pg://REDACTED:REDACTED@h,service.name=s` || out.SchemaURL() != dirty.SchemaURL() {
		t.Errorf("resource %s, schema %s", got, out.SchemaURL())
	}
	if r.Resource(dirty) != out {
		t.Error("the result is not remembered")
	}
	s := r.Scope(instrumentation.Scope{Name: "n", Attributes: attribute.NewSet(attribute.String("token", "x"))})
	if v, _ := s.Attributes.Value("token"); v.AsString() != "REDACTED" {
		t.Errorf("scope %v", v)
	}
}

func TestStatsHaveNoContent(t *testing.T) {
	r := mustNew(t, Default())
	r.Text("a@b.io c@d.io 4111111111111111")
	attr(t, r, "password", "x")
	s := r.Stats()
	if s.Redacted["email"] != 2 || s.Redacted["card"] != 1 || s.Redacted["credentials"] != 1 || s.Redacted["jwt"] != 0 || len(s.Redacted) != len(Default().Rules) {
		t.Errorf("%+v", s)
	}
}
