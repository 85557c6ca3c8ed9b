package equality_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// receiver is shared: each run has a path of its own.
var receiver *equality.Receiver

func TestMain(m *testing.M) {
	// Programs with wrong variables are reported, as they should be; what matters is that both go on alike.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	receiver = equality.NewReceiver()
	code := m.Run()
	receiver.Close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println("goroutines are left:", err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// against is what the official SDK is compared with; TARE_EQUALITY=official compares it with itself,
// which shows whether a failure is the suite's own.
func against() equality.Pipeline {
	if os.Getenv("TARE_EQUALITY") == "official" {
		return equality.Official
	}
	return equality.Lean
}

// compare runs a program on both pipelines, with ids by counting or by the providers, and returns what
// the official one did, and as an error how they differ.
func compare(t testing.TB, p program, counting bool) (equality.Result, error) {
	t.Helper()
	want, err := equality.Run(p, equality.Official, receiver, counting)
	require.NoError(t, err)
	got, err := equality.Run(p, against(), receiver, counting)
	if err != nil {
		return want, err
	}
	return want, equality.Compare(want, got, counting, !p.Concurrent)
}

func TestPrograms(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range programs() {
		if seen[p.Name] {
			t.Fatalf("two programs are named %q", p.Name)
		}
		seen[p.Name] = true
		t.Run(p.Name, func(t *testing.T) {
			if !p.Concurrent {
				want, err := compare(t, p, true)
				assert.NoError(t, err, "ids by counting")
				if len(want.Spans) > 5000 {
					return // other ids would show nothing that smaller programs do not, for seconds
				}
			}
			if _, err := compare(t, p, false); err != nil {
				t.Errorf("ids of the providers: %v", err)
			}
		})
	}
	t.Logf("%d programs", len(seen))
}
