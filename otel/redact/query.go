package redact

import "strings"

// query replaces what a query carries and keeps its shape. It tells three
// kinds apart by the text alone, for the rule sees no other attribute:
//   - JSON (MongoDB, Elasticsearch): strings and numbers that are values;
//   - commands of Redis and memcached, one a line: all behind the key, or
//     behind the command where it has no key (AUTH, HELLO, CONFIG …);
//   - else SQL and its like: strings and numbers.
//
// Comments stay, for the other detectors to look into.
func (sc *scanner) query(s string) string {
	q := queryPass{s: s, rule: sc.by.query}
	switch text := strings.TrimLeft(s, " \t\r\n"); {
	case text == "":
		return s
	case text[0] == '{' || text[0] == '[':
		q.json()
	case isCommand(text):
		q.commands()
	default:
		q.sql()
	}
	if len(q.matches) == 0 {
		return s
	}
	return sc.rewrite(s, q.matches)
}

type queryPass struct {
	s       string
	rule    *rule
	matches []match
}

func (q *queryPass) literal(start, end int) {
	if start < end {
		q.matches = append(q.matches, match{start, end, q.rule})
	}
}

// sql finds literals. Where dialects disagree, it takes more:
//   - \' inside a string is an escape in MySQL and the end in the standard: the
//     string is taken to go on to the end of the text;
//   - "x" is a string in MySQL and an identifier in the standard: it is a
//     literal behind a comparison and inside the brackets of IN and VALUES.
func (q *queryPass) sql() {
	s, list, depth := q.s, false, 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\'':
			end := stringEnd(s, i)
			q.literal(i, end)
			i = end
		case c == '"':
			end := stringEnd(s, i)
			if list && depth > 0 || comparedAt(s, i, end) {
				q.literal(i, end)
			}
			i = end
		case c == '`':
			i = skipPast(s, i+1, "`")
		case c == '$':
			i = q.dollar(i)
		case strings.HasPrefix(s[i:], "--"):
			i = skipPast(s, i, "\n")
		case strings.HasPrefix(s[i:], "/*"):
			i = skipPast(s, i, "*/")
		case isDigit(c):
			end := i
			for end < len(s) && (isAlnum(s[end]) || s[end] == '.' || s[end] == '_') {
				end++
			}
			if i == 0 || s[i-1] != ':' && s[i-1] != '@' { // placeholders :1, @1
				q.literal(i, end)
			}
			i = end
		case isLetter(c) || c == '_' || c >= 0x80:
			end := i
			for end < len(s) && (isAlnum(s[end]) || s[end] == '_' || s[end] == '$' || s[end] >= 0x80) {
				end++
			}
			if word := s[i:end]; strings.EqualFold(word, "in") || strings.EqualFold(word, "values") {
				list, depth = true, 0
			} else if depth == 0 {
				list = false
			}
			i = end
		default:
			if c == '(' {
				depth++
			} else if c == ')' && depth > 0 {
				depth--
			}
			i++
		}
	}
}

func stringEnd(s string, i int) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i+1 < len(s) && s[i+1] == quote {
				return len(s)
			}
		case quote:
			if i+1 >= len(s) || s[i+1] != quote {
				return i + 1
			}
			i++
		}
	}
	return len(s)
}

func comparedAt(s string, start, end int) bool {
	if end < len(s) && s[end] == '.' {
		return false // "table"."column"
	}
	before := strings.TrimRight(s[:start], " \t\r\n")
	if before == "" {
		return false
	}
	if strings.IndexByte("=<>~", before[len(before)-1]) >= 0 {
		return true
	}
	n := len(before) - len("like")
	return n >= 0 && strings.EqualFold(before[n:], "like")
}

// dollar takes $tag$text$tag$ of PostgreSQL, and leaves placeholders ($1).
func (q *queryPass) dollar(i int) int {
	end := i + 1
	for end < len(q.s) && (isAlnum(q.s[end]) || q.s[end] == '_') {
		end++
	}
	if end == len(q.s) || q.s[end] != '$' {
		return end
	}
	tag := q.s[i : end+1]
	end = skipPast(q.s, end+1, tag)
	q.literal(i, end)
	return end
}

func skipPast(s string, i int, what string) int {
	if n := strings.Index(s[i:], what); n >= 0 {
		return i + n + len(what)
	}
	return len(s)
}

func (q *queryPass) json() {
	s := q.s
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			x := quoted(s, i)
			rest := strings.TrimLeft(s[min(x.close, len(s)):], " \t\r\n")
			if x.end > len(s) || rest == "" || rest[0] != ':' {
				q.literal(x.start, min(x.end, len(s)))
			}
			i = x.close
		case isDigit(c):
			end := i
			for end < len(s) && (isAlnum(s[end]) || strings.IndexByte("+-.", s[end]) >= 0) {
				end++
			}
			q.literal(i, end)
			i = end
		default:
			i++
		}
	}
}

func (q *queryPass) commands() {
	for i := 0; i < len(q.s); {
		end := i + len(q.s[i:])
		if n := strings.IndexByte(q.s[i:], '\n'); n >= 0 {
			end = i + n
		}
		line := strings.TrimRight(q.s[i:end], " \t\r")
		stop := i + len(line)
		command, key := wordAt(q.s, i, stop)
		switch {
		case keyless.has(q.s[i:command]):
			q.literal(skipSpace(q.s, command, stop), stop)
		case commands.has(q.s[i:command]):
			_, rest := wordAt(q.s, key, stop)
			q.literal(rest, stop)
		default: // the second line of a value
			q.literal(i, stop)
		}
		i = end + 1
	}
}

// wordAt returns the end of the word at i and the start of the next.
func wordAt(s string, i, stop int) (end, next int) {
	for end = i; end < stop && !isSpace(s[end]); end++ {
	}
	return end, skipSpace(s, end, stop)
}

func skipSpace(s string, i, stop int) int {
	for i < stop && isSpace(s[i]) {
		i++
	}
	return i
}
