package path

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

var from, to = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")

func TestSegment(t *testing.T) {
	st := state{seq: 1001, ack: 2001, value: 7, echo: 9, timestamps: true, at: time.Now().Add(-time.Millisecond)}
	s := st.segment(netip.AddrPortFrom(from, 40000), netip.AddrPortFrom(to, 80), probeTag(3))
	b := s.encode(from, to)
	if len(b)%4 != 0 || len(b) > headerLen+optionsMax {
		t.Fatalf("%d bytes", len(b))
	}
	if sum := checksum(b, from, to); sum != 0 {
		t.Errorf("the checksum of the whole is %#x", sum)
	}
	got, ok := parseSegment(b)
	if !ok || !got.whole || got.src != 40000 || got.dst != 80 || got.seq != 1000 || got.ack != 2001 || got.flags != flagACK {
		t.Errorf("%+v", got)
	}
	if value, echo, ok := got.timestamps(); !ok || value < 1007 || echo != 9 {
		t.Errorf("timestamps %d %d", value, echo)
	}
	if tag, ok := got.option(kindTag); !ok || !isProbeTag(tag) || tag[25] != 3 {
		t.Errorf("tag %x", tag)
	}
	if got, _ := parseSegment(append(b[:len(b):len(b)], "seen\n"...)); got.data != 5 {
		t.Errorf("%d bytes of data", got.data)
	}
	// Of what is cut off, the tag is not told.
	for n := range b {
		if got, ok := parseSegment(b[:n]); ok != (n >= 8) || got.whole {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
	blank := bytes.ReplaceAll(b, probeTag(3), bytes.Repeat([]byte{kindNOP}, tagLen))
	if got, _ := parseSegment(blank); !got.whole {
		t.Errorf("%+v", got)
	} else if _, ok := got.option(kindTag); ok {
		t.Error("a tag that was blanked out is found")
	}
}

func TestQuote(t *testing.T) {
	s := segment{src: 1, dst: 2, options: probeTag(1)}
	tcp := s.encode(from, to)
	ip := append([]byte{0x46, 9: 6, 23: 0}, tcp...) // with an option
	copy(ip[16:], to.AsSlice())
	for _, c := range []struct {
		name     string
		b        []byte
		v6       bool
		ok, full bool
	}{
		{"all of it", append([]byte{timeExceeded4, 7: 0}, ip...), false, true, true},
		{"8 bytes of it", append([]byte{timeExceeded4, 7: 0}, ip[:24+8]...), false, true, false},
		{"less", append([]byte{timeExceeded4, 7: 0}, ip[:24+7]...), false, false, false},
		{"an echo's answer", append([]byte{0, 7: 0}, ip...), false, false, false},
	} {
		q, ok := parseQuote(c.b, c.v6)
		if ok != c.ok || ok && (q.to != to || q.segment.dst != 2 || q.segment.whole != c.full || !q.exceeded) {
			t.Errorf("%s: %v %+v", c.name, ok, q)
		}
	}
}

func TestConclude(t *testing.T) {
	hops := func(options ...string) (all []Hop) {
		for i, o := range options {
			all = append(all, Hop{i + 1, string(rune('a' + i)), o})
		}
		return all
	}
	for _, c := range []struct {
		name           string
		r              Report
		plain, tagged  bool
		verdict, where string
	}{
		{"both directions", Report{Hops: hops(Intact, Reached), Asked: true, Arrived: 5, Back: 5}, true, true, Pass, ""},
		{"not asked", Report{Hops: hops(Intact, Reached)}, true, true, Unknown, ""},
		{"between hops", Report{Hops: hops(Intact, Untold, Gone, Reached)}, true, true, Strip, "between a and c"},
		{"at once", Report{Hops: hops(Gone)}, true, true, Strip, "between this host and a"},
		{"behind the last that tells", Report{Hops: hops(Intact, Silent, Reached), Asked: true}, true, true, Strip, "behind a"},
		{"back", Report{Hops: hops(Intact, Reached), Asked: true, Arrived: 5}, true, true, Strip, "on the way back"},
		{"dropped", Report{Hops: hops(Intact, Silent, Silent)}, true, false, Drop, "behind a"},
		{"a host that answers neither", Report{Hops: hops(Intact, Silent, Silent)}, false, false, Unknown, ""},
	} {
		if c.r.conclude(c.plain, c.tagged); c.r.Verdict != c.verdict || c.r.Where != c.where {
			t.Errorf("%s: %s %s", c.name, c.r.Verdict, c.r.Where)
		}
	}
}

func FuzzSegment(f *testing.F) {
	s := segment{src: 1, dst: 2, options: probeTag(1)}
	f.Add(s.encode(from, to), false)
	f.Add(append(make([]byte, 48), s.encode(from, to)...), true)
	f.Fuzz(func(_ *testing.T, b []byte, v6 bool) {
		if s, ok := parseSegment(b); ok {
			s.option(kindTag)
			s.timestamps()
		}
		parseQuote(b, v6)
	})
}
