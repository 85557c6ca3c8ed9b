package bound

// foreign is the memory of an object of JSON whose schema is not known here: Zipkin's.
const foreign = 512

// level is an object or a list that has begun.
type level struct {
	of   *shape // of the object, or of the list's elements
	list bool
}

// walkJSON is walk for JSON. Root is nil if the schema is not known. It does not check
// the syntax, which the decoder does: it follows strings and brackets, as far as the
// decoder can come.
func walkJSON(b []byte, root *shape, limit int64) (cost int64, err error) {
	var stack [jsonDepth]level
	depth := 0
	next := root // the shape of the object that may begin
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth == jsonDepth {
				return cost, deep(jsonDepth)
			}
			stack[depth] = level{next, b[i] == '['}
			depth++
			switch {
			case b[i] == '[':
				cost += 32
			case next != nil:
				cost += next.cost()
			case root == nil:
				cost += foreign
			default: // a field that the decoder skips
				cost += 16
			}
			if b[i] == '{' {
				next = nil
			}
		case '}', ']':
			if depth > 0 {
				depth--
			}
			next = within(stack[:depth])
		case ',':
			next = within(stack[:depth])
			cost += 32 // an element of a list of scalars
		case '"':
			begin := i + 1
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) {
				return cost, malformed("JSON")
			}
			if depth > 0 && !stack[depth-1].list && key(b[i+1:]) {
				next = nil
				if of := stack[depth-1].of; of != nil {
					next = of.names[string(b[begin:i])]
				}
			}
		}
		if cost > limit {
			return cost, large(limit)
		}
	}
	return cost, nil
}

// within is the shape of a value after a comma: that of the others in a list.
func within(stack []level) *shape {
	if len(stack) > 0 && stack[len(stack)-1].list {
		return stack[len(stack)-1].of
	}
	return nil
}

// key reports whether a string before rest is a key.
func key(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}
