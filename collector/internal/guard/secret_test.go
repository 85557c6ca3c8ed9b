package guard

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"http://anna:geheim@host:1/x":                   "http://anna:***@host:1/x",
		"tcp://anna:ge@heim@host:9000?password=geheim":  "tcp://anna:***@host:9000?password=***",
		"tcp://host?username=a&password=geheim&debug=1": "tcp://host?username=a&password=***&debug=1",
		"https://geheim@host":                           "https://***@host",
		"unix://@abstract, http://host/a@b, a@b.c":      "unix://@abstract, http://host/a@b, a@b.c",
		"endpoint: \"http://:geheim@h\" and http://b":   "endpoint: \"http://:***@h\" and http://b",
	} {
		if got := Hide(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestLogsHaveNoPasswords(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	log := zap.New(core, HideSecrets())
	const secret = "http://anna:geheim@host:1/x"
	u, err := url.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	log.With(zap.String("a", secret)).Warn("cannot reach "+secret, zap.String("b", secret), zap.Error(errors.New(secret)),
		zap.Stringer("c", u), zap.Any("d", struct{ Endpoint string }{secret}))
	log.Debug("not logged")
	if logs.Len() != 1 {
		t.Fatalf("%d lines", logs.Len())
	}
	line := logs.All()[0]
	if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "geheim") || strings.Count(text, "anna") != 6 {
		t.Error(text)
	}
}

// What a peer put into a name or an error writes nothing on the terminal that shows the log.
func TestLogsShowWhatIsHidden(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	log := zap.New(core, HideSecrets())
	const name = "a\x1b]0;x\x07\u202eb\u009b2J\u200b"
	log.With(zap.String("a", name)).Warn("name "+name+"\nanother line", zap.String("b", name), zap.Error(errors.New(name)),
		zap.Stringer("c", stringer(name)), zap.Any("d", struct{ Name string }{name}), zap.String("e", "two\nlines"))
	line := logs.All()[0]
	text := fmt.Sprint(line.Message, line.ContextMap())
	if strings.ContainsAny(text, "\x1b\x07\u202e\u009b\u200b") || strings.Count(text, `\u202e`) != 6 || strings.Contains(line.Message, "\n") || line.ContextMap()["e"] != "two\nlines" {
		t.Errorf("%q", text)
	}
}

type stringer string

func (s stringer) String() string { return string(s) }
