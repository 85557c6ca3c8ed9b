package spans

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// The commands whose first argument is no key, or whose arguments are secret:
// they are named, and nothing else of them is kept.
var redisKeyless = map[string]bool{
	"AUTH": true, "HELLO": true, "ACL": true, "CONFIG": true, "EVAL": true, "EVALSHA": true,
	"SCRIPT": true, "PING": true, "ECHO": true, "CLIENT": true, "MIGRATE": true, "FCALL": true,
}

// identifyRedis reads RESP arrays of bulk strings, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n". Several in one request are a
// pipeline, or a transaction. Values are replaced by "?", as the conventions ask for db.query.text.
func identifyRedis(x exchange) (f facts, ok bool) {
	if f.operation, f.target, ok = redisCommand(x.request); !ok {
		return f, false
	}
	f.protocol = protocolRedis
	if !f.redisBatch(x) {
		f.failure = respFailure(x.response)
	}
	return f, true
}

// redisCommand is the name and the text of the command that begins here.
func redisCommand(b []byte) (name, text string, ok bool) {
	n, rest, ok := respNumber(b, '*')
	if !ok || n < 1 || n > 1<<20 {
		return "", "", false
	}
	command, rest, ok := respBulk(rest)
	if !ok || !isWord(command) {
		return "", "", false
	}
	name = string(bytes.ToUpper(command))
	text = name
	if key, _, ok := respBulk(rest); ok && n > 1 && !redisKeyless[name] {
		text += " " + printable(key)
		n--
	}
	if n > 1 {
		text += " ?"
	}
	return name, text, true
}

// redisBatch reads what follows the first command; not if nothing does. Commands that were not seen may be others than
// those that were: then the batch has neither a size nor a command.
func (f *facts) redisBatch(x exchange) bool {
	if bytes.IndexByte(x.request[1:], '*') < 0 { // most requests are one command
		return false
	}
	texts, same, size := []string{f.target}, "", 0
	kind := "PIPELINE"
	if f.operation == "MULTI" {
		kind = "MULTI"
	} else {
		same, size = f.operation, 1
	}
	seen := len(x.request) >= x.size
	rest, whole := respSkip(x.request, 0)
	for whole && len(rest) > 0 {
		name, text, ok := redisCommand(rest)
		if !ok {
			seen = false // the end of a command cut off, or of another one
			break
		}
		texts = append(texts, text)
		if kind == "PIPELINE" || name != "EXEC" {
			if size++; size == 1 {
				same = name
			} else if same != name {
				same = ""
			}
		}
		rest, whole = respSkip(rest, 0)
	}
	if len(texts) == 1 && (len(rest) == 0 || rest[0] != '*') {
		return false
	}
	f.operation, f.target = kind, strings.Join(texts, "; ")
	if seen && whole {
		f.operation = strings.TrimSpace(kind + " " + same)
		f.batch = size
	}
	f.failure = respFailures(x.response)
	return true
}

// respFailures is the first word of the first error among the answers, within those of a transaction too.
func respFailures(b []byte) string {
	for len(b) > 0 {
		if failure := respFailure(b); failure != "" {
			return failure
		}
		if _, rest, ok := respNumber(b, '*'); ok { // its parts come next
			b = rest
			continue
		}
		var ok bool
		if b, ok = respSkip(b, 0); !ok {
			return ""
		}
	}
	return ""
}

// respFailure is the first word of an error, "" without one. RESP3 has errors with a
// length, too, and may push something or say something of an answer before it.
func respFailure(b []byte) string {
	for len(b) > 1 && (b[0] == '>' || b[0] == '|') {
		var ok bool
		if b, ok = respSkip(b, 0); !ok {
			return ""
		}
	}
	if _, rest, ok := respNumber(b, '!'); ok {
		b = append([]byte{'-'}, rest...)
	}
	if len(b) < 2 || b[0] != '-' {
		return ""
	}
	word, _, _ := bytes.Cut(b[1:], []byte{' '})
	word, _, _ = bytes.Cut(word, []byte{'\r'})
	return printable(word)
}

// respSkip is behind a value; not if that is cut off.
func respSkip(b []byte, depth int) (rest []byte, ok bool) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) < 1 || depth > 4 {
		return nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '$', '!', '=':
		switch {
		case err != nil || n+2 > len(rest):
			return nil, false
		case n < 0: // null of RESP2
			return rest, true
		}
		return rest[n+2:], true
	case '>', '|', '*', '~', '%':
		if line[0] == '|' || line[0] == '%' {
			n *= 2
		}
		for ok = err == nil; ok && n > 0; n-- {
			rest, ok = respSkip(rest, depth+1)
		}
		return rest, ok
	}
	return rest, true
}

func respNumber(b []byte, kind byte) (n int, rest []byte, ok bool) {
	if len(b) < 4 || b[0] != kind {
		return 0, nil, false
	}
	line, rest, found := bytes.Cut(b[1:], []byte("\r\n"))
	if !found || len(line) == 0 || len(line) > 9 {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line))
	return n, rest, err == nil && n >= 0
}

// respBulk reads a bulk string; what the record cut off is missing.
func respBulk(b []byte) (s, rest []byte, ok bool) {
	n, b, ok := respNumber(b, '$')
	if !ok {
		return nil, nil, false
	}
	if n >= len(b) {
		return b, nil, true
	}
	return b[:n], bytes.TrimPrefix(b[n:], []byte("\r\n")), true
}

func isWord(b []byte) bool {
	if len(b) == 0 || len(b) > 32 {
		return false
	}
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

var memcachedCommands = []string{
	"get", "gets", "set", "add", "replace", "append", "prepend", "cas", "delete", "incr", "decr",
	"touch", "gat", "gats", "mg", "ms", "md", "ma", "mn", "me", "stats", "flush_all", "version", "verbosity", "quit",
}

// identifyMemcached reads a line of the text protocol: "get key\r\n".
func identifyMemcached(request, response []byte) (f facts, ok bool) {
	line, _, found := bytes.Cut(request, []byte{'\r', '\n'})
	if !found {
		return f, false
	}
	command, args, _ := bytes.Cut(line, []byte{' '})
	if !slices.Contains(memcachedCommands, string(command)) {
		return f, false
	}
	f.protocol, f.operation = protocolMemcached, string(command)
	key, more, _ := bytes.Cut(args, []byte{' '})
	f.target = f.operation
	if len(key) > 0 {
		f.target += " " + printable(key)
	}
	if len(more) > 0 && f.operation != "get" && f.operation != "gets" {
		f.target += " ?"
	}
	for _, e := range []string{"ERROR", "CLIENT_ERROR", "SERVER_ERROR"} {
		if bytes.HasPrefix(response, []byte(e)) {
			f.failure = e
		}
	}
	return f, true
}
