package adaptive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func actions(r *rig) string {
	var a []string
	for _, e := range r.State().Incident.Audit {
		a = append(a, e.Action+" "+e.Source)
	}
	return strings.Join(a, ", ")
}

func TestIncidentExpires(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxRate = 0.6
	r := newRig(t, cfg, WithRoutes(0))
	r.observe("GET /bad", true, time.Minute)
	r.observe("GET /good", false, ok)
	r.wait(30 * time.Second)
	require.NoError(t, r.StartIncident(0.2, time.Minute, "look"))
	// It raises, it does not lower.
	if good, bad := r.RateOf("GET /good"), r.RateOf("GET /bad"); !close4(good, 0.2) || !close4(bad, 0.3) {
		t.Errorf("rates %v, %v", good, bad)
	}
	require.NoError(t, r.StartIncident(1, 10*time.Second, "all"))
	r.wantRate(0.6) // the maximum
	r.wait(10*time.Second - 1)
	r.wantRate(0.6)
	r.wait(time.Second)
	r.wantRate(0.05)
	if got, want := actions(r), "started program, replaced program, expired program"; got != want {
		t.Errorf("audit: %s; want %s", got, want)
	}
	assert.False(t, r.EndIncident(""), "there was none to end")
	for _, c := range []struct {
		rate float64
		d    time.Duration
	}{{0, time.Second}, {1.1, time.Second}, {-1, time.Second}, {1, 0}, {1, 8 * 24 * time.Hour}} {
		assert.Error(t, r.StartIncident(c.rate, c.d, ""), "StartIncident(%v, %v) was accepted", c.rate, c.d)
	}
}

func TestAuditIsBounded(t *testing.T) {
	r := newRig(t, DefaultConfig())
	for range maxEvents + 10 {
		require.NoError(t, r.StartIncident(1, time.Hour, ""))
	}
	if st := r.State().Incident; len(st.Audit) != maxEvents || st.AuditDropped != 10 {
		t.Errorf("%d events, %d dropped", len(st.Audit), st.AuditDropped)
	}
}

func TestIncidentFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incident")
	r := newRig(t, DefaultConfig(), WithIncidentFile(path))
	write := func(text string) {
		t.Helper()
		// As the documentation advises; and with a time of its own, as the
		// file system's clock is coarse.
		next := path + ".next"
		require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(next, r.now, r.now))
		require.NoError(t, os.Rename(next, path))
	}
	r.wait(time.Second)
	r.wantRate(0.05)

	write("")
	r.wait(time.Second)
	r.wantRate(1)
	r.wait(time.Hour)
	r.wantRate(1)

	write(`{"rate":0.5,"duration":"5m","reason":"checkout"}`)
	r.wait(time.Second)
	r.wantRate(0.5)
	if i := r.State().Incident; len(i.Active) != 1 || i.Active[0].Reason != "checkout" || i.Active[0].Source != "file" {
		t.Errorf("state: %+v", i)
	}
	r.wait(5 * time.Minute)
	r.wantRate(0.05)

	write(`{"rate":0.7}`)
	r.wait(time.Second)
	r.wantRate(0.7)
	// Next to the switch the higher rate counts, and neither ends the other.
	require.NoError(t, r.StartIncident(0.9, time.Minute, ""))
	r.wantRate(0.9)
	r.EndIncident("")
	r.wantRate(0.7)

	write(`{"rate":70}`)
	r.wait(time.Second)
	r.wantRate(0.05)
	if p := r.State().Incident.FileError; !strings.Contains(p, "rate is 70") || !strings.Contains(p, path) {
		t.Errorf("file error: %q", p)
	}
	audit := len(r.State().Incident.Audit)
	r.wait(time.Minute)
	if n := len(r.State().Incident.Audit); n != audit {
		t.Errorf("the same error was reported %d times", n-audit+1)
	}

	write(`{"rate":0.7,"until":"2026-01-01T00:00:00Z"}`) // over
	r.wait(time.Second)
	r.wantRate(0.05)

	write(`{"rate":0.7}`)
	r.wait(time.Second)
	require.NoError(t, os.Remove(path))
	r.wantRate(0.7)
	r.wait(time.Second)
	r.wantRate(0.05)

	require.NoError(t, os.Mkdir(path, 0o700))
	r.wait(time.Second)
	assert.Contains(t, r.State().Incident.FileError, "not a regular file", "file")
	require.NoError(t, os.Remove(path))
	r.wait(time.Second)
	assert.Equal(t, "", r.State().Incident.FileError, "file error after the file is gone")
}

func TestParseFile(t *testing.T) {
	written := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		`garbage`:                          "want JSON such as",
		`{"rate":"high"}`:                  "want JSON such as",
		`{"rat":1}`:                        "unknown field",
		`{"rate":1} 2`:                     "behind the JSON",
		`{"rate":0}`:                       "rate is 0",
		`{"duration":"soon"}`:              "duration",
		`{"duration":"-1s"}`:               "duration is -1s",
		`{"duration":"999h"}`:              "at most 168h",
		`{"until":"2027-01-01T00:00:00Z"}`: "at most 168h",
		`{"until":"tomorrow"}`:             "want JSON such as",
		`{"until":"2026-01-01T00:00:00Z","duration":"1s"}`:      "contradict",
		`{"reason":"` + strings.Repeat("x", maxReason+1) + `"}`: "the reason has 1025 bytes",
		`{"until":"0001-01-01T00:00:00Z"}`:                      "from 1970",
		`{"reason":"` + strings.Repeat("x", maxFile) + `"}`:     "longer than",
	} {
		if _, err := parseFile([]byte(text), written); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", text, err, want)
		}
	}
}
