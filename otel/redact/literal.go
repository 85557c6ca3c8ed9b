package redact

import "regexp/syntax"

// requiredLiteral returns the longest string that every match of pattern must
// contain, as far as the pattern's outermost sequence shows it, or "". Looking
// for it is many times cheaper than running the expression (see the
// benchmarks): it is what makes a hundred patterns bearable.
func requiredLiteral(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return literalOf(re.Simplify())
}

func literalOf(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return literalOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalOf(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if l := literalOf(sub); len(l) > len(best) {
				best = l
			}
		}
		return best
	}
	return ""
}
