package store

import (
	"fmt"
	"log/slog"
	"os"
)

// engineLog passes Pebble's messages on to the store's log.
type engineLog struct{ log *slog.Logger }

func (l engineLog) Infof(format string, args ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, args...))
}

func (l engineLog) Errorf(format string, args ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process, as Pebble requires: after its log could not be
// written or synced, for another reason than a full disk (roomFS), it cannot
// know what is on disk, and everything that was acknowledged is found again by
// the next Open.
func (l engineLog) Fatalf(format string, args ...any) {
	text := "store: cannot go on: " + fmt.Sprintf(format, args...)
	l.log.Error(text)
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
