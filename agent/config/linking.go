package config

// Linking says how the messages that a service receives are linked to those that it
// sends. The numbers are those of enum tare_linking in bpf/event.h.
type Linking uint8

// Auto lets package runtime decide, and the kernel side where no runtime is
// recognised.
const (
	Auto      Linking = 0 // as threads, until the kernel side has evidence against it
	Thread    Linking = 1 // one request at a time per thread
	Loop      Linking = 2 // event loop: a receive is followed by what it causes
	None      Linking = 3 // server spans only
	Queue     Linking = 4 // event loop: several receives, then what they cause; matched by the first line
	Goroutine Linking = 5 // Go: read from the program's memory
	Task      Linking = 6 // virtual threads, greenlets, asyncio: read from the process's memory; threads as Auto
)

var linkings = []string{Auto: "auto", Thread: "thread", Loop: "loop", None: "none", Queue: "queue", Goroutine: "goroutine", Task: "task"}

func (l Linking) String() string {
	if int(l) < len(linkings) {
		return linkings[l]
	}
	return "invalid"
}

// MarshalText writes the name, for JSON.
func (l Linking) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

func parseLinking(where, text string) (Linking, error) {
	for l, name := range linkings {
		if text == name {
			return Linking(l), nil
		}
	}
	return Auto, oneOf(where, text, linkings...)
}
