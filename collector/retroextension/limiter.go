package retroextension

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

const (
	maxClasses = 4096 // further ones share a class without a service
	reserved   = 0.1  // of the rate: for what the last second did not show
)

// class is what traces are shared out between.
type class struct {
	service string
	reason  keep.Reason
}

// limiter bounds the traces that are kept each second, in equal shares. A class that had fewer in the last second than
// its share leaves the rest to the others (max-min fairness). Of a class that had more, the trace id decides, so that
// all coordinators choose the same traces. What is not shared out is for new classes and bursts: a class may take as
// much of it as it leaves, so that one that floods leaves some to those that come after it within the second.
type limiter struct {
	rate    int
	started time.Time
	second  int64 // since then
	spare   int
	classes map[class]*share
}

type share struct {
	arrived     int     // in this second
	probability float64 // with which a trace id is chosen
	left        int     // of the share in this second
	extra       int     // taken of what is not shared out
	limited     uint64  // ever
}

func newLimiter(rate int, now time.Time) *limiter {
	return &limiter{rate: rate, started: now, spare: rate, classes: map[class]*share{}}
}

// allow decides about a trace that nobody has asked for before.
func (l *limiter) allow(now time.Time, c class, id span.TraceID) bool {
	l.turn(now)
	s := l.share(c)
	s.arrived++
	switch {
	case fraction(id) >= s.probability:
	case s.left > 0:
		s.left--
		return true
	case s.extra < l.spare:
		s.extra++
		l.spare--
		return true
	}
	s.limited++
	return false
}

// share finds the share of a class. Of classes beyond the bound it is a common one for each reason.
func (l *limiter) share(c class) *share {
	s := l.classes[c]
	if s == nil && len(l.classes) >= maxClasses {
		c.service = ""
		s = l.classes[c]
	}
	if s == nil {
		s = &share{probability: 1}
		l.classes[c] = s
	}
	return s
}

// turn shares out the rate by what came in the second before.
func (l *limiter) turn(now time.Time) {
	second := int64(now.Sub(l.started) / time.Second)
	if second == l.second {
		return
	}
	previous := second == l.second+1
	l.second = second
	var asked []*share
	for c, s := range l.classes {
		arrived := s.arrived
		*s = share{probability: 1, limited: s.limited}
		switch {
		case arrived > 0 && previous:
			s.arrived = arrived
			asked = append(asked, s)
		case s.limited == 0: // else its counter is published
			delete(l.classes, c)
		}
	}
	slices.SortFunc(asked, func(a, b *share) int { return cmp.Compare(a.arrived, b.arrived) })
	rest := (1 - reserved) * float64(l.rate)
	l.spare = l.rate
	for i, s := range asked {
		arrived := float64(s.arrived)
		equal := min(arrived, rest/float64(len(asked)-i))
		rest -= equal
		s.probability = equal / arrived
		s.left = int(equal)
		l.spare -= s.left
		s.arrived = 0
	}
}

// fraction maps a trace id to [0, 1). It hashes, because the bits of some ids are not random, and those of traces that
// a kernel side has chosen are not any more.
func fraction(id span.TraceID) float64 {
	sum := sha256.Sum256(id[:])
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
