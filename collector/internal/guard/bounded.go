package guard

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Whoever can connect can make the collector log: the first lines of a kind are written,
// then one each second, with the number of those that were not. Their texts are cut.
const (
	burst     = 20
	perLine   = time.Second
	longest   = 400 // bytes of a text
	kinds     = 64  // that are told apart
	kindBytes = 20  // of a message: what follows differs by the peer's address
)

// Bounded returns a logger whose warnings and errors are bounded in rate and length.
func Bounded(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return &boundedCore{c, lines} }))
}

// lines is the bound of the whole process.
var lines = &rate{now: time.Now, kinds: map[string]*allowance{}}

// rate says which lines are written.
type rate struct {
	now   func() time.Time
	mu    sync.Mutex
	kinds map[string]*allowance
}

// Limit bounds how many records whoever can connect makes a program write, as [Bounded] does for its log.
type Limit struct{ rate rate }

// NewLimit returns a Limit of its own.
func NewLimit() *Limit { return &Limit{rate{now: time.Now, kinds: map[string]*allowance{}}} }

// Take returns whether a record of a kind is written, and how many before it were not.
func (l *Limit) Take(kind string) (ok bool, unlogged int) { return l.rate.take(kind) }

type allowance struct {
	left     int
	since    time.Time // of the last line that was added to left
	unlogged int
}

// take returns whether a line of a kind is written, and how many before it were not.
func (r *rate) take(kind string) (ok bool, unlogged int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(kind) > kindBytes {
		kind = kind[:kindBytes]
	}
	now := r.now()
	a := r.kinds[kind]
	if a == nil {
		if len(r.kinds) >= kinds {
			kind = ""
			a = r.kinds[kind]
		}
		if a == nil {
			a = &allowance{left: burst, since: now}
			r.kinds[kind] = a
		}
	}
	if n := int(now.Sub(a.since) / perLine); n > 0 {
		a.left = min(burst, a.left+n)
		a.since = now
	}
	if a.left == 0 {
		a.unlogged++
		return false, 0
	}
	a.left--
	unlogged, a.unlogged = a.unlogged, 0
	return true, unlogged
}

type boundedCore struct {
	zapcore.Core
	rate *rate
}

func (c *boundedCore) With(fields []zapcore.Field) zapcore.Core {
	return &boundedCore{c.Core.With(fields), c.rate}
}

func (c *boundedCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level < zapcore.WarnLevel {
		return c.Core.Check(e, ce)
	}
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c *boundedCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < zapcore.WarnLevel {
		return c.Core.Write(e, fields)
	}
	ok, unlogged := c.rate.take(e.Message)
	if !ok {
		return nil
	}
	e.Message = cut(e.Message)
	short := make([]zapcore.Field, 0, len(fields)+1)
	for _, f := range fields {
		short = append(short, cutField(f))
	}
	if unlogged > 0 {
		short = append(short, zap.Int("unlogged", unlogged))
	}
	return c.Core.Write(e, short)
}

func cutField(f zapcore.Field) zapcore.Field {
	switch f.Type {
	case zapcore.StringType:
		f.String = cut(f.String)
	case zapcore.ErrorType, zapcore.StringerType:
		if text := fmt.Sprint(f.Interface); len(text) > longest {
			return zap.String(f.Key, cut(text))
		}
	}
	return f
}

func cut(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…" // not within a character
}
