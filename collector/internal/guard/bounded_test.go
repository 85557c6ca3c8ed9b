package guard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestLinesAreBounded(t *testing.T) {
	now := time.Unix(1, 0)
	core, logs := observer.New(zapcore.InfoLevel)
	log := zap.New(&boundedCore{core, &rate{now: func() time.Time { return now }, kinds: map[string]*allowance{}}})
	for i := range 1000 {
		log.Warn("request refused", zap.Int("n", i))
	}
	if n := logs.Len(); n != burst {
		t.Errorf("%d lines at once", n)
	}
	log.Error(fmt.Sprint("http: TLS handshake error from ", strings.Repeat("x", 10_000)), zap.Error(errors.New(strings.Repeat("y", 10_000))))
	last := logs.All()[logs.Len()-1]
	if len(last.Message) > longest+3 || len(last.ContextMap()["error"].(string)) > longest+3 {
		t.Errorf("a line of %d and %d bytes", len(last.Message), len(last.ContextMap()["error"].(string)))
	}
	now = now.Add(time.Second)
	log.Warn("request refused")
	log.Warn("request refused")
	if last := logs.All()[logs.Len()-1]; logs.Len() != burst+2 || last.ContextMap()["unlogged"] != int64(1000-burst) {
		t.Errorf("%d lines, the last with %v", logs.Len(), last.ContextMap())
	}
	for i := range 10_000 {
		log.Warn(fmt.Sprintf("%020d", i))
	}
	if n := logs.Len(); n > (kinds+2)*burst {
		t.Errorf("%d lines of 10,000 kinds", n)
	}
	before := logs.Len()
	for range 100 {
		log.Info("all is well")
	}
	if logs.Len() != before+100 {
		t.Error("lines that no peer causes are bounded")
	}
}
