package spans

// The bounds of what is remembered of connections: all is forgotten beyond them.
const (
	mostStatements  = 8192 // of up to TARE_PAYLOAD_START bytes
	mostConnections = 8192
)

// preparedKey is a prepared statement; of a connection, the id of its first span in a row.
type preparedKey struct {
	connection uint64
	name       string
}

// link is what a finished span leaves for the next one on its connection.
type link struct {
	connection uint64
	awaits     myAwaited
}

// follow keeps what the next span on the connection has to know.
func (b *Builder) follow(o *open, awaits myAwaited) {
	if len(b.connections) >= mostConnections {
		clear(b.connections)
	}
	b.connections[o.id] = link{o.connection, awaits}
}

func (b *Builder) prepared(key preparedKey, s statement) {
	if len(b.statements) >= mostStatements {
		clear(b.statements)
	}
	b.statements[key] = s
}
