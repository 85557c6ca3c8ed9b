package redact

import (
	"encoding/base64"
	"strings"
)

// jwt looks at a J for "eyJ", how base64url writes the {" that the header of
// every token begins with, and for two to four more parts behind dots (RFC
// 7515, 7516).
func (p *pass) jwt(i int) int {
	s, start := p.s, i-2
	if start < p.done || s[start:i] != "ey" || isBase64URL(p.before(start)) {
		return i + 1
	}
	end := base64URLEnd(s, start)
	if end-start < 10 {
		return i + 1
	}
	parts, last := 1, 0
	for parts < 5 && end < len(s) && s[end] == '.' {
		next := base64URLEnd(s, end+1)
		last = next - end - 1
		end = next
		parts++
	}
	if parts >= 3 || parts == 2 && last >= 3 { // two: cut off by a limit on lengths
		return p.found(start, end, p.by.jwt)
	}
	return i + 1
}

func isBase64URL(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }

func base64URLEnd(s string, i int) int {
	for i < len(s) && isBase64URL(s[i]) {
		i++
	}
	return i
}

// A bearer token of fewer characters is taken for prose ("bearer of"); so is
// one without a digit that is shorter than proseBytes ("bearer authentication").
const (
	bearerBytes = 8
	proseBytes  = 20
)

// credentials looks at a b for Bearer or Basic and a token68 (RFC 9110, 11.2).
func (p *pass) credentials(i int) int {
	s := p.s
	if isAlnum(p.before(i)) || len(s)-i < len("basic x") {
		return i + 1
	}
	basic := strings.EqualFold(s[i:i+5], "basic")
	start := i + 5
	if !basic {
		if start++; start > len(s) || !strings.EqualFold(s[i:start], "bearer") {
			return i + 1
		}
	}
	gap := start
	for start < len(s) {
		if s[start] == ' ' || s[start] == '+' {
			start++
		} else if strings.HasPrefix(s[start:], "%20") {
			start += 3
		} else {
			break
		}
	}
	end, digit := start, false
	for end < len(s) && (isBase64URL(s[end]) || strings.IndexByte("._~+/", s[end]) >= 0) {
		digit = digit || isDigit(s[end])
		end++
	}
	if start == gap || end == start {
		return gap
	}
	word := strings.TrimRight(s[start:end], ".")
	padded := start + len(word)
	for padded < len(s) && s[padded] == '=' {
		padded++
	}
	if padded < len(s) && isAlnum(s[padded]) { // name=value, no padding
		padded = start + len(word)
	}
	if basic && !isUserPassword(word) || !basic && (len(word) < bearerBytes || !digit && len(word) < proseBytes) {
		return start
	}
	return p.found(start, padded, p.by.bearer)
}

func isUserPassword(token string) bool {
	if len(token) > 1024 {
		return true
	}
	var room [768]byte
	n, err := base64.RawStdEncoding.Decode(room[:], []byte(token))
	return err == nil && strings.IndexByte(string(room[:n]), ':') >= 0
}

// keyForm is a key with a known beginning, which ends with the byte that makes
// the scanner look.
type keyForm struct {
	prefix  string
	atLeast int // bytes behind the prefix
	upper   bool
	wide    bool // - and _ belong to it
}

// keyForms by the byte to look at, the last of the prefix (the first for A).
// Where the prefix alone is telling, much less than the issuer's length will
// do: a limit on lengths may have cut the key.
var keyForms = [256][]keyForm{
	'_': {
		{prefix: "ghp_", atLeast: 16}, {prefix: "gho_", atLeast: 16}, {prefix: "ghu_", atLeast: 16}, {prefix: "ghs_", atLeast: 16}, {prefix: "ghr_", atLeast: 16},
		{prefix: "github_pat_", atLeast: 16, wide: true},
		{prefix: "sk_live_", atLeast: 10}, {prefix: "sk_test_", atLeast: 10}, {prefix: "rk_live_", atLeast: 10}, {prefix: "rk_test_", atLeast: 10}, {prefix: "whsec_", atLeast: 16},
		{prefix: "npm_", atLeast: 36}, {prefix: "hf_", atLeast: 20},
	},
	'-': {
		{prefix: "xoxb-", atLeast: 10, wide: true}, {prefix: "xoxp-", atLeast: 10, wide: true}, {prefix: "xoxa-", atLeast: 10, wide: true},
		{prefix: "xoxr-", atLeast: 10, wide: true}, {prefix: "xoxs-", atLeast: 10, wide: true}, {prefix: "xapp-", atLeast: 10, wide: true},
		{prefix: "glpat-", atLeast: 20, wide: true}, {prefix: "sk-", atLeast: 32, wide: true},
	},
	'A': {
		{prefix: "AKIA", atLeast: 16, upper: true}, {prefix: "ASIA", atLeast: 16, upper: true}, {prefix: "AIza", atLeast: 20, wide: true},
	},
}

// prefixed looks for a key with a known prefix.
func (p *pass) prefixed(i int) int {
	if p.by.apiKey == nil {
		return i + 1
	}
	c := p.s[i]
	for _, f := range keyForms[c] {
		start := i
		if c != 'A' {
			start = i + 1 - len(f.prefix)
		}
		if start < p.done || !strings.HasPrefix(p.s[start:], f.prefix) || isAlnum(p.before(start)) || p.before(start) == '_' {
			continue
		}
		body := start + len(f.prefix)
		end := body
		for end < len(p.s) && f.takes(p.s[end]) {
			end++
		}
		if end-body >= f.atLeast {
			return p.found(start, end, p.by.apiKey)
		}
	}
	return i + 1
}

func (f keyForm) takes(c byte) bool {
	switch {
	case f.upper:
		return isDigit(c) || 'A' <= c && c <= 'Z'
	case f.wide:
		return isBase64URL(c)
	}
	return isAlnum(c)
}

const (
	pemBegin = "-----BEGIN"
	pemLabel = "PRIVATE"
	pemEnd   = "-----END"
	pemDash  = "-----"
	// labelBytes bounds the label: the longest in use are ENCRYPTED PRIVATE KEY
	// and PGP PRIVATE KEY BLOCK, with spaces written as %20.
	labelBytes = 48
)

// pem takes a private key from its BEGIN to its END (RFC 7468), or to the end
// of the text if a limit on lengths cut it off. Spaces and line ends may be
// escaped in any way.
func (p *pass) pem(i int) int {
	s, label := p.s, i+len(pemBegin)
	head := s[label:min(len(s), label+labelBytes)]
	dash := strings.Index(head, pemDash)
	if dash < 0 || !strings.Contains(head[:dash], pemLabel) {
		return label
	}
	body := label + dash + len(pemDash)
	end := strings.Index(s[body:], pemEnd)
	if end < 0 {
		return p.found(i, len(s), p.by.privateKey)
	}
	end += body + len(pemEnd)
	if last := strings.Index(s[end:min(len(s), end+labelBytes+len(pemDash))], pemDash); last >= 0 {
		end += last + len(pemDash)
	}
	return p.found(i, end, p.by.privateKey)
}
