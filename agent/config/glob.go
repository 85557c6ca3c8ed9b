package config

// Glob reports whether the pattern matches the whole text: "*" stands for any number of
// bytes, "?" for one byte. Unlike in a shell, "*" also matches "/", so that "*/python3*"
// finds an interpreter in any directory. All other bytes are literal (names of cgroups hold
// backslashes, which the patterns of otel/rule take for escapes), so every pattern is
// valid. It takes at most time proportional to the product of the lengths.
func Glob(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last *, and the end of its current match
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
