package golang

import (
	"fmt"
	"unsafe"
)

// Mechanism is one way of linking, which a program has or has not.
type Mechanism uint8

// The mechanisms, each derived on its own.
const (
	Goroutines Mechanism = iota // ids of goroutines
	Contexts                    // from a context.Context to its parents
	HTTP1Servers
	HTTP1Clients
	HTTP2Servers
	HTTP2Clients
	GRPCServers
	GRPCClients
	NumMechanisms
)

// String is the mechanism's name in metrics and logs.
func (m Mechanism) String() string {
	return [...]string{"goroutines", "contexts", "http1 server", "http1 client", "http2 server",
		"http2 client", "grpc server", "grpc client", "unknown"}[min(m, NumMechanisms)]
}

// Reason is why a mechanism cannot be used with a program, or why nothing of the
// program can be read.
type Reason uint8

// The reasons. Absent is none to complain about: the program does not have what
// the mechanism is for.
const (
	Fits Reason = iota
	Absent
	Unreadable
	PIEWithoutProcess
	UnknownArchitecture
	NoFunctionTable
	NoModule
	NoType
	NoField
	NoFunction
	NoArgument
	ArgumentNotKept
	NoStackObject
	NoMap
	UnknownMap
	MapBefore124
	NotSame
	NumReasons
)

var reasons = [NumReasons]string{
	Fits:                "",
	Absent:              "not in the program",
	Unreadable:          "the executable or the process's memory cannot be read",
	PIEWithoutProcess:   "position independent, and no process to read addresses from",
	UnknownArchitecture: "not built for amd64 or arm64",
	NoFunctionTable:     "no table of functions (pclntab): packed, or of an unknown version",
	NoModule:            "moduledata has an unknown shape",
	NoType:              "a type is missing",
	NoField:             "a field is missing, or of another type",
	NoFunction:          "a function is missing",
	NoArgument:          "a function has other arguments",
	ArgumentNotKept:     "a function does not keep its argument",
	NoStackObject:       "a function does not keep its variable in memory",
	NoMap:               "a field is no map",
	UnknownMap:          "a map has an unknown shape",
	MapBefore124:        "maps of Go before 1.24",
	NotSame:             "the process does not run what its executable says",
}

// String says it in words.
func (r Reason) String() string {
	if r >= NumReasons {
		return "unknown"
	}
	return reasons[r]
}

// Refusal is why a mechanism is not available, and of which type, field or
// function that is true.
type Refusal struct {
	Reason Reason
	What   string
}

// Error makes a refusal of all of a program an error.
func (r Refusal) Error() string {
	if r.What == "" {
		return r.Reason.String()
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.What)
}

// maxWhat bounds what a refusal says of a program, in bytes: it is logged, and remembered.
const maxWhat = 128

func refuse(r Reason, what string) Refusal {
	return Refusal{r, string([]byte(what[:min(len(what), maxWhat)]))}
}

// size is about how many bytes it takes to remember an executable.
func (k *known) size() int {
	n := 512 + len(k.refusal.What)
	l := k.layout
	if l == nil {
		return n
	}
	slot := func(list ...Slot) {
		for _, s := range list {
			n += int(unsafe.Sizeof(s)) + cap(s.Live)*int(unsafe.Sizeof(Range{})) + cap(s.Entries)*int(unsafe.Sizeof(Entry{}))
		}
	}
	for _, r := range l.Refused {
		n += len(r.What)
	}
	n += int(unsafe.Sizeof(*l)) + cap(l.Contexts)*int(unsafe.Sizeof(Context{}))
	for _, c := range l.Contexts {
		n += len(c.Type)
	}
	for _, s := range l.HTTP1Servers {
		n += int(unsafe.Sizeof(s)) + len(s.Package)
		slot(s.Conn)
	}
	for _, c := range l.HTTP1Clients {
		n += int(unsafe.Sizeof(c)) + len(c.Package)
		slot(c.Request, c.Conn)
	}
	for _, s := range l.HTTP2Servers {
		n += int(unsafe.Sizeof(s)) + len(s.Package)
		slot(append(s.Writers, s.Conn)...)
	}
	for _, c := range l.HTTP2Clients {
		n += int(unsafe.Sizeof(c)) + len(c.Package)
		slot(c.Stream)
	}
	for _, s := range l.GRPCServers {
		n += int(unsafe.Sizeof(s)) + len(s.Package)
		slot(s.Transport, s.Stream)
	}
	for _, c := range l.GRPCClients {
		n += int(unsafe.Sizeof(c)) + len(c.Package)
		slot(c.Loopy)
	}
	return n
}
