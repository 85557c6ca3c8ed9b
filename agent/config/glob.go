package config

// Glob matches the whole text: "*" stands for any bytes, none included, and
// "?" for one byte. Unlike a shell's, "*" also crosses "/", so that
// "*/python3*" finds an interpreter wherever it is. Everything else is literal,
// so every pattern is valid. Time is at most the product of the lengths.
func Glob(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last *, and where its match ends at present
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
