package keep

// Sweep lets an eighth of MaxAge pass.
func (p *Processor) Sweep() { p.sweep() }
