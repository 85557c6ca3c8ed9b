package spans

import (
	"bytes"
	"slices"
	"strings"
)

// statement is what the text of SQL tells, in so far as it has been seen.
type statement struct {
	text       string // literals are "?"
	operation  string // of a single statement: its command, in upper case
	summary    string // db.query.summary: commands, each with its tables
	collection string // the only table of a complete single statement
}

// readSQL reads PostgreSQL's dialect. cut: the text goes on beyond what is there.
// Comments are kept where parameterised is true and the text has parameters: the
// conventions take such a text for free of values. What stands in quotes and every
// number is replaced nevertheless.
func readSQL(text []byte, cut, parameterised bool) statement {
	r := sqlReader{s: text, cut: cut}
	r.comments = parameterised && hasParameter(text)
	return r.statement()
}

// readMySQL reads the dialect of MySQL and MariaDB. What stands in double quotes is
// taken for a string, which it is unless ANSI_QUOTES is set.
func readMySQL(text []byte, cut bool) statement {
	r := sqlReader{s: text, cut: cut, mysql: true}
	return r.statement()
}

func (r *sqlReader) statement() statement {
	r.read()
	st := statement{text: printable(bytes.TrimSpace(r.out)), summary: printable([]byte(strings.Join(r.parts, " ")))}
	if len(r.parts) == 0 {
		return statement{} // no SQL: it may be anything, a password, too
	}
	if r.statements == 1 {
		st.operation = r.parts[0]
		if len(r.tables) == 1 && !r.more && !r.cut {
			st.collection = printable([]byte(r.tables[0]))
		}
	}
	return st
}

// hasParameter reports whether $1 or its like stands outside of literals and comments.
func hasParameter(text []byte) bool {
	r := sqlReader{s: text}
	r.read()
	return r.parameters
}

// sqlReader goes through a text once: it copies it without its literals, and
// notes commands and tables.
type sqlReader struct {
	s        []byte
	i        int
	cut      bool
	comments bool // are kept
	mysql    bool

	out        []byte
	parameters bool
	statements int
	parts      []string // of the summary
	tables     []string
	more       bool // tables that are not among these, or may be none

	// Of the statement that is being read.
	command string
	begun   bool
	with    bool // common table expressions: their names look like tables
	depth   int  // of brackets
	expect  bool // a table's name is next
	list    bool // a comma is followed by another table
	last    string
}

func (r *sqlReader) read() {
	for r.i < len(r.s) {
		at := r.i
		switch c := r.s[at]; {
		case isSQLSpace(c):
			r.i++
			r.space()
		case r.dashes(at), r.mysql && c == '#':
			r.i = past(r.s, at, "\n")
			r.comment(at)
		case bytes.HasPrefix(r.s[at:], []byte("/*")):
			r.i = blockEnd(r.s, at)
			if r.mysql {
				r.i = mysqlBlockEnd(r.s, at)
			}
			r.comment(at)
		case c == '\'', r.mysql && c == '"':
			r.i = quoteEnd(r.s, at, false)
			r.literal()
		case c == '$' && !r.mysql:
			r.dollar()
		case isDigit(c) || c == '.' && at+1 < len(r.s) && isDigit(r.s[at+1]):
			for r.i < len(r.s) && (isWordByte(r.s[r.i]) || r.s[r.i] == '.') {
				r.i++
			}
			r.literal()
		case c == r.quote() || isWordByte(c):
			r.name()
		default:
			r.i++
			r.out = append(r.out, c)
			r.sign(c)
		}
	}
}

// dashes reports whether a comment begins at a dash: MySQL wants space behind two.
func (r *sqlReader) dashes(at int) bool {
	if !bytes.HasPrefix(r.s[at:], []byte("--")) {
		return false
	}
	return !r.mysql || at+2 == len(r.s) || r.s[at+2] <= ' '
}

// quote begins and ends a name.
func (r *sqlReader) quote() byte {
	if r.mysql {
		return '`'
	}
	return '"'
}

func (r *sqlReader) space() {
	if n := len(r.out); n > 0 && r.out[n-1] != ' ' {
		r.out = append(r.out, ' ')
	}
}

func (r *sqlReader) comment(from int) {
	if !r.comments {
		r.space()
		return
	}
	for _, c := range r.s[from:r.i] {
		if isSQLSpace(c) {
			r.space()
		} else {
			r.out = append(r.out, c)
		}
	}
}

func (r *sqlReader) literal() {
	r.out = append(r.out, '?')
	r.expect, r.last = false, ""
}

// dollar takes a parameter ($1), or a string between $tag$ and $tag$.
func (r *sqlReader) dollar() {
	end := r.i + 1
	for end < len(r.s) && isWordByte(r.s[end]) && r.s[end] != '$' {
		end++
	}
	switch {
	case end > r.i+1 && isDigit(r.s[r.i+1]):
		r.out = append(r.out, r.s[r.i:end]...)
		r.parameters, r.i = true, end
	case end < len(r.s) && r.s[end] == '$':
		r.i = past(r.s, end+1, string(r.s[r.i:end+1]))
		r.literal()
	default: // not SQL, or a tag that is cut off
		r.i = len(r.s)
		r.literal()
	}
}

// name takes a word or a name, with what stands before it and a dot.
func (r *sqlReader) name() {
	from, quote := r.i, r.quote()
	for r.i < len(r.s) {
		if r.s[r.i] == quote {
			r.i = identifierEnd(r.s, r.i)
		} else {
			for r.i < len(r.s) && isWordByte(r.s[r.i]) {
				r.i++
			}
		}
		if r.i+1 >= len(r.s) || r.s[r.i] != '.' || r.s[r.i+1] != quote && !isWordByte(r.s[r.i+1]) {
			break
		}
		r.i++
	}
	name := r.s[from:r.i]
	if r.i < len(r.s) && r.s[r.i] == '\'' && len(name) == 1 && strings.IndexByte("eEbBxXnN", name[0]) >= 0 {
		r.i = quoteEnd(r.s, r.i, name[0] == 'e' || name[0] == 'E')
		r.literal()
		return
	}
	r.out = append(r.out, name...)
	if r.cut && (r.i == len(r.s) || r.i+1 == len(r.s) && r.s[r.i] == '.') {
		return // perhaps half of it
	}
	r.word(string(name))
}

// word tells what a word is for in its statement.
func (r *sqlReader) word(name string) {
	upper := strings.ToUpper(name)
	last := r.last
	r.last = upper
	if !r.begun {
		r.begun = true
		r.statements++
		r.with = upper == "WITH"
		if !r.with {
			r.begin(upper)
		}
		return
	}
	if r.depth > 0 {
		r.more = r.more || upper == "SELECT"
		if r.command != "" || r.with {
			return
		}
	}
	switch upper {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE":
		if r.command == "" && r.with {
			r.begin(upper)
			return
		}
		if upper == "SELECT" { // INSERT … SELECT, UNION
			r.more = true
			r.begin(upper)
		}
	case "FROM":
		if last != "DISTINCT" && slices.Contains([]string{"SELECT", "DELETE", "UPDATE"}, r.command) {
			r.expect, r.list = true, r.mysql || r.command != "DELETE"
		}
	case "INTO":
		r.expect = r.command == "INSERT" || r.command == "MERGE" || r.mysql && (r.command == "REPLACE" || r.command == "LOAD")
	case "USING":
		r.expect = r.command == "DELETE" || r.command == "MERGE"
	case "JOIN", "STRAIGHT_JOIN":
		r.expect = r.list
	case "ONLY", "TABLE", "LATERAL":
	case "LOW_PRIORITY", "IGNORE", "QUICK":
		if r.expect && !r.mysql {
			r.expect = false
			r.table(name)
		}
	case "WHERE", "SET", "VALUES", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "FETCH", "WINDOW", "FOR", "RETURNING", "UNION", "INTERSECT", "EXCEPT":
		r.expect, r.list = false, false
	default:
		if r.expect {
			r.expect = false
			r.table(name)
		}
	}
}

// begin notes a command. Others than PostgreSQL's are no names: there may be any number.
func (r *sqlReader) begin(upper string) {
	r.command, r.expect, r.list = upper, false, false
	if sqlCommands[upper] || r.mysql && mysqlCommands[upper] {
		r.parts = append(r.parts, upper)
		r.expect, r.list = upper == "UPDATE" || upper == "TRUNCATE" || upper == "COPY", upper == "TRUNCATE"
	}
}

func (r *sqlReader) table(name string) {
	rest := bytes.TrimLeft(r.s[r.i:], " \t\r\n")
	call := len(rest) > 0 && rest[0] == '(' && r.list // a function that gives rows
	if call || r.with && r.command == "SELECT" {
		r.more = true
		return
	}
	name = strings.ReplaceAll(name, string(r.quote()), "")
	r.tables = append(r.tables, name)
	r.parts = append(r.parts, name)
}

func (r *sqlReader) sign(c byte) {
	r.last = ""
	switch c {
	case '(':
		if r.expect { // a query in place of a table
			r.expect, r.more = false, true
		}
		r.depth++
	case ')':
		r.depth = max(0, r.depth-1)
	case ',':
		r.expect = r.expect || r.list && r.depth == 0
	case ';':
		r.command, r.begun, r.with, r.depth, r.expect, r.list = "", false, false, 0, false, false
	}
}

// quoteEnd is behind the string that begins at i. A backslash before a quote
// escapes it (escapes), or does not, or does so by the server's settings: then all
// that follows is taken for the string.
func quoteEnd(s []byte, i int, escapes bool) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if escapes {
				i++
			} else if i+1 < len(s) && s[i+1] == quote {
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

// identifierEnd is behind the name in quotes that begins at i.
func identifierEnd(s []byte, i int) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		if i+1 >= len(s) || s[i+1] != quote {
			return i + 1
		}
		i++
	}
	return len(s)
}

// blockEnd is behind the comment that begins at i; comments may hold comments.
func blockEnd(s []byte, i int) int {
	for depth := 0; i+1 < len(s); {
		switch {
		case s[i] == '/' && s[i+1] == '*':
			depth++
			i += 2
		case s[i] == '*' && s[i+1] == '/':
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(s)
}

// mysqlBlockEnd is the same where comments hold none. What is in /*! is a part of the
// statement, or not, by the server's version: with quotes in it, that decides what
// stands in quotes behind it, so that nothing behind it is read.
func mysqlBlockEnd(s []byte, i int) int {
	end := past(s, i+2, "*/")
	body := s[i+2 : end]
	if (bytes.HasPrefix(body, []byte("!")) || bytes.HasPrefix(body, []byte("M!"))) && bytes.ContainsAny(body, "'\"`#-\\") {
		return len(s)
	}
	return end
}

// past is behind the next what at or after i.
func past(s []byte, i int, what string) int {
	if n := bytes.Index(s[i:], []byte(what)); n >= 0 {
		return i + n + len(what)
	}
	return len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isSQLSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

// sqlCommands are PostgreSQL's, by their first words.
var sqlCommands = words(`ABORT ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE
	DEALLOCATE DECLARE DELETE DISCARD DO DROP END EXECUTE EXPLAIN FETCH GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE MOVE
	NOTIFY PREPARE REASSIGN REFRESH REINDEX RELEASE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SELECT SET SHOW START
	TABLE TRUNCATE UNLISTEN UPDATE VACUUM VALUES
	BASE_BACKUP CREATE_REPLICATION_SLOT DROP_REPLICATION_SLOT IDENTIFY_SYSTEM READ_REPLICATION_SLOT START_REPLICATION TIMELINE_HISTORY`)

// mysqlCommands are what MySQL and MariaDB have beside them.
var mysqlCommands = words(`BINLOG CACHE CHANGE CHECK CHECKSUM DESC DESCRIBE FLUSH GET HANDLER HELP INSTALL KILL OPTIMIZE PURGE
	RENAME REPAIR REPLACE RESIGNAL SHUTDOWN SIGNAL STOP UNINSTALL UNLOCK USE XA`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}
