package redact

// Stats are counts since New. They hold nothing of what was redacted.
type Stats struct {
	// Redacted counts by rule: attributes removed or replaced whole, and finds
	// replaced inside texts. Rules that found nothing are there with 0.
	Redacted map[string]uint64
	// NotAllowed counts attributes dropped because the allow list lacks their key.
	NotAllowed uint64
	// Unsettled counts texts emptied because their redaction never came to an
	// end (rules that find their own replacement), and values nested too deeply
	// to be looked at, which are masked.
	Unsettled uint64
}

// Stats returns the counts so far.
func (r *Redactor) Stats() Stats {
	s := Stats{Redacted: make(map[string]uint64, len(r.rules)), NotAllowed: r.dropped.Load(), Unsettled: r.unstable.count.Load()}
	for _, c := range r.rules {
		s.Redacted[c.Name] = c.count.Load()
	}
	return s
}
