package load

// ring is a queue of connections, of fixed size.
type ring struct {
	conns []*conn
	head  int
	n     int
}

func newRing(size int) ring { return ring{conns: make([]*conn, size)} }

func (r *ring) len() int { return r.n }

func (r *ring) first() *conn { return r.conns[r.head] }

func (r *ring) push(c *conn) {
	i := r.head + r.n
	if i >= len(r.conns) {
		i -= len(r.conns)
	}
	r.conns[i] = c
	r.n++
}

func (r *ring) pop() *conn {
	c := r.conns[r.head]
	r.n--
	if r.head++; r.head == len(r.conns) {
		r.head = 0
	}
	return c
}
