package native

// Lists sets where lists of threads begin.
func (l *LibC) Lists(used, user uint64) { l.stacks, l.list = [2]uint64{used, user}, 8 }
