package path

import (
	"fmt"
	"io"
)

// States of the option at a hop.
const (
	Intact  = "intact"
	Gone    = "gone"
	Untold  = "not told" // the hop quotes too little of the packet
	Silent  = "silent"   // the hop does not answer
	Refused = "refused"  // the hop says that it does not pass the segment on
	Reached = "reached"  // it is the host itself, which answers
)

// Verdicts.
const (
	Pass    = "pass"    // the other end received it, in both directions
	Strip   = "strip"   // somebody takes it away
	Drop    = "drop"    // segments that have it do not arrive
	Unknown = "unknown" // it is there as far as hops tell; the other end was not asked
)

// Hop is a router, or the host.
type Hop struct {
	TTL     int    `json:"ttl"`
	Address string `json:"address,omitempty"`
	Option  string `json:"option"` // Intact, Gone, Untold, Silent, Reached
}

// Report is what was found of the path to one address.
type Report struct {
	Peer    string `json:"peer"`
	Hops    []Hop  `json:"hops"`
	MSS     int    `json:"mss"`  // that the peer offers, bytes
	Room    int    `json:"room"` // for options, beside those that both ends use, bytes
	Sent    int    `json:"sent,omitempty"`
	Arrived int    `json:"arrived,omitempty"` // of those sent, as the other end says
	Back    int    `json:"back,omitempty"`    // of as many sent by the other end
	Asked   bool   `json:"asked"`             // the other end is `tare doctor --answer`
	Verdict string `json:"verdict"`
	Where   string `json:"where,omitempty"` // between which hops it is taken away
}

// conclude finds the verdict, with what the host answers: probes without the option, and with it.
func (r *Report) conclude(plain, tagged bool) {
	last := "this host"
	for _, h := range r.Hops {
		if h.Option == Gone {
			r.Verdict, r.Where = Strip, "between "+last+" and "+h.Address
			return
		}
		if h.Option == Intact {
			last = h.Address
		}
	}
	switch {
	case r.Asked && r.Arrived == 0:
		r.Verdict, r.Where = Strip, "behind "+last
	case r.Asked && r.Back == 0:
		r.Verdict, r.Where = Strip, "on the way back"
	case r.Asked:
		r.Verdict = Pass
	case plain && !tagged:
		r.Verdict, r.Where = Drop, "behind "+last
	default:
		r.Verdict = Unknown
	}
}

// OK reports whether nothing speaks against tags on this path.
func (r *Report) OK() bool { return (r.Verdict == Pass || r.Verdict == Unknown) && r.Room >= tagLen }

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format+"\n", args...)
		}
	}
	line("path        to %s: MSS %d bytes, room for %d bytes of options (a tag needs %d)", r.Peer, r.MSS, r.Room, tagLen)
	for _, h := range r.Hops {
		line("  %2d        %-15s  %s", h.TTL, h.Address, h.Option)
	}
	if r.Asked {
		line("arrived     %d of %d; on the way back %d", r.Arrived, r.Sent, r.Back)
	}
	switch r.Verdict {
	case Pass:
		line("verdict     Tare's TCP options survive this path, in both directions")
	case Strip:
		line("verdict     Tare's TCP options are taken away %s: traces end there. `tag: ip` or `sequence: on` may do, see docs/wire.md", r.Where)
	case Drop:
		line("verdict     segments with Tare's TCP options do not arrive: they are dropped %s. Trust no network behind it", r.Where)
	default:
		line("verdict     Tare's TCP options reach the last hop that tells of them, and segments with them arrive; to be sure, run `tare doctor --answer :PORT` on the other host, and this towards it")
	}
	if r.Room < tagLen {
		line("warning     the connection's own options leave too little room for a tag")
	}
	return err
}
