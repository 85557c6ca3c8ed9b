package guard

import (
	"fmt"
	"regexp"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tare-trace/tare/span/text"
)

// Secrets in URLs, which the framework takes for addresses and prints.
var (
	withPassword = regexp.MustCompile(`(://[^\s/?#"'@:]*):[^\s/?#"']*@`)
	withToken    = regexp.MustCompile(`(://)[^\s/?#"'@:]+@`)
	inQuery      = regexp.MustCompile(`(?i)([?&;](?:password|passwd|pwd|secret|token|access_token|auth|sig|api_?-?key|access_?-?key|secret_?-?key)=)[^&;\s"']+`)
)

// Hide replaces passwords and tokens in the URLs of a text.
func Hide(s string) string {
	s = withPassword.ReplaceAllString(s, "$1:***@")
	s = withToken.ReplaceAllString(s, "$1***@")
	return inQuery.ReplaceAllString(s, "$1***")
}

// clean is what of a text is logged: without secrets, and with what a terminal would obey or hide as escapes.
func clean(s string) string { return text.Lines(Hide(s)) }

// HideSecrets is an option of the collector's logger that applies [Hide] to what is logged, and makes visible what a
// terminal would obey or hide: names and errors of others are logged, too.
func HideSecrets() zap.Option {
	return zap.WrapCore(func(c zapcore.Core) zapcore.Core { return hidingCore{c} })
}

type hidingCore struct{ zapcore.Core }

func (c hidingCore) With(fields []zapcore.Field) zapcore.Core {
	return hidingCore{c.Core.With(hideFields(fields))}
}

func (c hidingCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(e, nil) == nil { // below the level, or sampled
		return ce
	}
	return ce.AddCore(e, c)
}

func (c hidingCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = text.Visible(Hide(e.Message))
	return c.Core.Write(e, hideFields(fields))
}

func hideFields(fields []zapcore.Field) []zapcore.Field {
	hidden := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		switch f.Type {
		case zapcore.StringType:
			f.String = clean(f.String)
		case zapcore.ErrorType, zapcore.StringerType:
			said := fmt.Sprint(f.Interface)
			if h := clean(said); h != said {
				f = zap.String(f.Key, h)
			}
		case zapcore.ReflectType:
			said := fmt.Sprintf("%+v", f.Interface)
			if h := clean(said); h != said {
				f = zap.String(f.Key, h)
			}
		}
		hidden[i] = f
	}
	return hidden
}
