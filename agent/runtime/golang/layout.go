package golang

// Range of addresses: [Low, High).
type Range struct{ Low, High uint64 }

// Layout is what a program's executable tells. Addresses are the executable's:
// those of a process are higher by its bias. Offsets are in bytes. It is shared
// by the processes of an executable, so nobody writes to it.
type Layout struct {
	Arch string
	// Refused says of each mechanism why it is not available; Fits if it is.
	// Several packages may bring the same mechanism, such as net/http's HTTP/2
	// and golang.org/x/net/http2: then it is available if one of them fits.
	Refused [NumMechanisms]Refusal

	Functions    Functions
	Goroutine    Goroutine
	TCP          TCPConn
	Contexts     []Context
	CancelErr    uint32 // context.cancelCtx.err: an interface, whose first word is 0 while the context is not cancelled
	ValueKey     uint32 // context.valueCtx.key: its first word is the key's type
	ValueVal     uint32 // context.valueCtx.val
	HTTP1Servers []HTTP1Server
	HTTP1Clients []HTTP1Client
	HTTP2Servers []HTTP2Server
	HTTP2Clients []HTTP2Client
	GRPCServers  []GRPCServer
	GRPCClients  []GRPCClient

	module, table uint64 // addresses of moduledata and of pclntab, which its first word holds
	entry         uint64 // where the executable begins to run
	pie           bool
	hash          Hash // of the maps above
}

// Functions are the tables from which the runtime learns which words of a frame are
// in use. Addresses are 0 in a program without any.
type Functions struct {
	Text  uint64 // of the code: what the tables have of it counts from here
	Table uint64 // pairs of 4 bytes, in order: a function, and from Table on its description
	Len   uint32 // of the table
	PC    uint64 // pctab: what depends on the place in a function
	Maps  uint64 // gofunc: what is said of its frame
}

// Goroutine is where runtime.g has what matters.
type Goroutine struct {
	StackHi uint32
	ID      uint32 // goid, 8 bytes; never used again
	StartPC uint32 // startpc, 8 bytes: the address of its first function
	Status  uint32 // atomicstatus, 4 bytes: 6 (_Gdead) once it has ended
	Parent  uint32 // parentGoid, 8 bytes: who started it
}

// TCPConn is the way from a net.Conn to its descriptor.
type TCPConn struct {
	Type  uint64 // type word of a *net.TCPConn; 0 if the program has none that is understood
	NetFD uint32 // of its pointer to a netFD
	FD    uint32 // in that, of the descriptor: 4 bytes
}

// ContextKind tells contexts apart that mean more than their parent.
type ContextKind uint8

// Kinds of contexts.
const (
	ContextOther  ContextKind = iota
	ContextValue              // context.valueCtx
	ContextCancel             // context.cancelCtx, timerCtx: begins with its parent, has CancelErr
)

// Context is one itab under which the program holds a context.Context, of a type
// of its own as well: the first word of the interface.
type Context struct {
	Itab uint64
	Kind ContextKind
	Type string // for logs
	// The parent, an interface of two words, is at data + Parent, or, if Via is
	// not negative, at *(data + Via) + Parent. Parent is −1 where there is none.
	Via, Parent int32
}

// HTTP1Server is net/http's, a goroutine for each connection, in Serve.
type HTTP1Server struct {
	Package string
	Serve   Range
	Conn    Slot   // of the *conn, the receiver of Serve
	Cancel  uint32 // conn.cancelCtx: a closure, whose second word is the connection's *cancelCtx
	// ContextKey is the type word of the keys under which net/http puts the
	// server and the address into a request's context.
	ContextKey uint64
}

// HTTP1Client is net/http's: a goroutine of its own writes all requests of a
// connection, in WriteLoop.
type HTTP1Client struct {
	Package   string
	WriteLoop Range
	Request   Slot   // of the *transportRequest being written
	Context   uint32 // transportRequest.ctx, or of the Request in it
	// Via is the offset of the *Request that Context is in; −1: Context is in the
	// transportRequest itself.
	Via    int32
	Conn   Slot   // of the *persistConn, the receiver of WriteLoop
	Writer uint32 // persistConn.bw: *bufio.Writer, what is written before TLS
	Buffer Buffer
}

// Buffer is where a writer keeps what it is about to write.
type Buffer struct {
	Bytes uint32 // of the slice; its first word is the address
	// Handle: the word at Bytes is a pointer to the slice, and not the slice.
	Handle bool
	Used   uint32 // of the number of bytes, 8 bytes
}

// HTTP2Server is net/http's or golang.org/x/net/http2's.
type HTTP2Server struct {
	Package    string
	ReadFrames Range  // receives all frames of a connection
	Conn       Slot   // of the *serverConn, the receiver of ReadFrames
	BaseCtx    uint32 // serverConn.baseCtx: the connection's context
	NetConn    uint32 // serverConn.conn: an interface
	// The goroutine of a request is in RunHandler. One of Writers is the slot of
	// its *responseWriter: the one for which *(*(writer + WriterState) +
	// StateStream) is a stream, that is, whose StreamConn is a known connection.
	RunHandler               Range
	Writers                  []Slot
	WriterState, StateStream uint32
	StreamID                 uint32 // stream.id, 4 bytes
	StreamCtx                uint32 // stream.ctx
	StreamConn               uint32 // stream.sc
	Streams                  uint32 // serverConn.streams: a map
	StreamsMap               Map    // zero where Go's maps are those before 1.24
	NoMap                    Reason // why; Fits if there is one
}

// HTTP2Client is net/http's or golang.org/x/net/http2's: each request's own
// goroutine writes its frames, in DoRequest.
type HTTP2Client struct {
	Package   string
	DoRequest Range
	Stream    Slot   // of the *clientStream, the receiver of DoRequest
	ID        uint32 // clientStream.ID, 4 bytes
	Context   uint32 // clientStream.ctx
	Conn      uint32 // clientStream.cc
	Writer    uint32 // ClientConn.bw: *bufio.Writer
	Buffer    Buffer
}

// GRPCServer is grpc-go's.
type GRPCServer struct {
	Package       string // of the transport
	HandleStreams Range  // receives all frames of a connection
	Transport     Slot   // of the *http2Server, the receiver of HandleStreams
	HandleStream  Range  // in which the goroutine of a call is
	Stream        Slot   // of the call's *ServerStream (*Stream before grpc-go 1.69)
	StreamType    uint64 // type word of the value in a call's context that is that stream
	StreamVia     int32  // where the stream points to what has its id; −1: it has it itself
	StreamID      uint32 // 4 bytes
	StreamServer  uint32 // the stream's transport: an interface, its second word is the *http2Server
	ServerConn    uint32 // http2Server.conn: an interface
}

// GRPCClient is grpc-go's: a goroutine for each connection writes the frames of
// all streams, in Run.
type GRPCClient struct {
	Package string
	Run     Range
	Loopy   Slot // of the *loopyWriter, the receiver of Run
	// GoAway is the loopyWriter's only field of a function: a closure, whose second
	// word is the *http2Client if this is a client's. It is if the framer there is
	// the loopyWriter's, and the loopyWriter there this one.
	GoAway        uint32
	ClientFramer  uint32 // http2Client.framer
	LoopyFramer   uint32 // loopyWriter.framer
	ClientLoopy   uint32 // http2Client.loopy
	ActiveStreams uint32 // http2Client.activeStreams: a map of ids to *ClientStream
	Streams       Map
	StreamVia     int32 // as in GRPCServer
	StreamID      uint32
	StreamCtx     uint32
	StreamMethod  uint32 // of a string, "/package.Service/Method"
	StreamClient  uint32 // ClientStream.ct, the *http2Client; in the ClientStream, not in what Via points to
	FramerWriter  uint32 // framer.writer: *bufWriter, what is written before TLS
	Buffer        Buffer
}
