package guard

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc/grpclog"
)

// latest is the core of the collector's newest logger. gRPC, which has one logger per
// process, writes to it.
var latest = &latestCore{}

// LogPeers is an option of the collector's logger that makes gRPC log to it, in place of
// the framework's own connection of the two. grpc-go reports refused connections, such as
// those without a client certificate, at a level that the framework drops.
func LogPeers() zap.Option {
	setLogger()
	return latest.follow()
}

// Unsampled returns a logger for refusals. The framework samples its logs by their texts,
// which drops refusals without saying so; this logger is bounded as [Bounded] is, and says
// how many lines it has not written. In a distribution without [LogPeers] it is Bounded.
func Unsampled(log *zap.Logger) *zap.Logger {
	if latest.core.Load() == nil {
		return Bounded(log)
	}
	return Bounded(log.WithOptions(zap.WrapCore(func(zapcore.Core) zapcore.Core { return latest })))
}

// setLogger sets gRPC's logger once, as grpc-go requires before any of its calls.
var setLogger = sync.OnceFunc(func() {
	log := Bounded(zap.New(latest))
	grpclog.SetLoggerV2(&peerLogger{LoggerV2: zapgrpc.NewLogger(log), log: log})
})

// refusedConnection is part of the line, with the peer's address, that grpc-go's server
// logs when a handshake failed.
const refusedConnection = "failed to create ServerTransport"

type peerLogger struct {
	grpclog.LoggerV2
	log *zap.Logger
}

func (l *peerLogger) Info(args ...any)                 { l.info(fmt.Sprint(args...)) }
func (l *peerLogger) Infoln(args ...any)               { l.info(strings.TrimSpace(fmt.Sprintln(args...))) }
func (l *peerLogger) Infof(format string, args ...any) { l.info(fmt.Sprintf(format, args...)) }

func (l *peerLogger) info(message string) {
	if strings.Contains(message, refusedConnection) {
		l.log.Warn("connection refused", zap.String("error", message))
	}
}

// V is about verbosity, not severity; this is grpc-go's default.
func (l *peerLogger) V(level int) bool { return level <= 0 }

// latestCore writes to the core that was set last; only warnings and worse, as the
// framework does for gRPC.
type latestCore struct{ core atomic.Pointer[zapcore.Core] }

// follow is an option that makes a logger's core the latest.
func (l *latestCore) follow() zap.Option {
	return zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		l.core.Store(&c)
		return c
	})
}

func (l *latestCore) get() zapcore.Core {
	if c := l.core.Load(); c != nil {
		return *c
	}
	return zapcore.NewNopCore()
}

func (l *latestCore) Enabled(level zapcore.Level) bool {
	return level >= zapcore.WarnLevel && l.get().Enabled(level)
}

// With stays at the current core; it is not used here.
func (l *latestCore) With(fields []zapcore.Field) zapcore.Core { return l.get().With(fields) }

func (l *latestCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !l.Enabled(e.Level) {
		return ce
	}
	return l.get().Check(e, ce)
}

func (l *latestCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return l.get().Write(e, fields)
}

func (l *latestCore) Sync() error { return l.get().Sync() }
