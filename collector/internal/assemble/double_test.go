package assemble

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/span/semconv"
)

// doubles is a trace of two services, each with an SDK, behind an entry that adopted a
// traceparent (the caller 1). Spans of the agent have even numbers, 10 above those of the SDK.
//
//	1 ─ 3 server ─ 4 internal ─ 5 client ─ 7 server        of the SDKs
//	  └ 13 server ─ 15 client ─ 17 server                  of the agent
//	              └ 16 client                              the SDK has no span of it: 4 is current
func doubles(keep string) []sp {
	sdk := func(id uint64, more map[string]any) map[string]any {
		attrs := map[string]any{semconv.SDKSpan: fmt.Sprintf("%016x", id), semconv.SDKTrace: traceID(1).String()}
		if keep != "" {
			attrs[semconv.SDKKeep] = keep
		}
		maps.Copy(attrs, more)
		return attrs
	}
	return []sp{
		{trace: 1, id: 1, kind: client, host: "a", start: 0, end: 100},
		{trace: 1, id: 3, parent: 1, host: "b", start: 11, end: 89},
		{trace: 1, id: 4, parent: 3, kind: internal, host: "b", start: 12, end: 88},
		{trace: 1, id: 5, parent: 4, kind: client, host: "b", start: 20, end: 60},
		{trace: 1, id: 7, parent: 5, host: "c", start: 31, end: 49},
		{trace: 1, id: 13, parent: 1, host: "b", start: 10, end: 90, attrs: sdk(3, map[string]any{semconv.Calls: 2})},
		{trace: 1, id: 15, parent: 13, kind: client, host: "b", start: 21, end: 59, attrs: sdk(5, map[string]any{semconv.PeerTraced: true})},
		{trace: 1, id: 16, parent: 13, kind: client, host: "b", start: 61, end: 70, attrs: sdk(4, nil)},
		{trace: 1, id: 17, parent: 15, host: "c", start: 30, end: 50, attrs: sdk(7, map[string]any{semconv.Calls: 0})},
	}
}

// parents are the spans that were emitted, with their parents.
func (f *fixture) parents() string {
	text := []string{}
	for _, g := range f.given {
		text = append(text, fmt.Sprintf("%d<%d", g.SpanID()[7], g.ParentSpanID()[7]))
	}
	slices.Sort(text)
	return fmt.Sprint(text)
}

func TestDoubles(t *testing.T) {
	for name, tc := range map[string]struct {
		keep     string
		change   func(list []sp) []sp
		want     string
		replaced uint64
		kept     map[int]uint64
	}{
		"both":        {want: "[13<1 15<13 16<13 17<15 1<0 3<1 4<3 5<4 7<5]"},
		"the SDK's":   {keep: semconv.KeepSDK, replaced: 3, kept: map[int]uint64{DoubleUncalled: 1}, want: "[16<4 1<0 3<1 4<3 5<4 7<5]"},
		"the agent's": {keep: semconv.KeepTare, replaced: 3, kept: map[int]uint64{DoubleUncalled: 1}, want: "[13<1 15<4 16<13 17<15 1<0 4<13]"},
		"a span of an SDK is lost": {
			keep: semconv.KeepSDK, replaced: 2, kept: map[int]uint64{DoubleUncalled: 1, DoubleAbsent: 1},
			change: func(list []sp) []sp { return slices.Delete(list, 3, 4) }, // 5: the agent's 15 stays, and 17 cannot be shown to be 7
			want:   "",                                                        // see below
		},
		"two calls within one span": {
			keep: semconv.KeepSDK, replaced: 2, kept: map[int]uint64{DoubleShared: 2},
			change: func(list []sp) []sp {
				list[7].attrs[semconv.SDKSpan] = fmt.Sprintf("%016x", 5)
				return list
			},
			want: "[15<3 16<3 1<0 3<1 4<3 5<4 7<15]",
		},
		"another request's span": {
			keep: semconv.KeepSDK, replaced: 1, kept: map[int]uint64{DoubleUncalled: 1, DoubleShared: 2},
			change: func(list []sp) []sp {
				list[8].attrs[semconv.SDKSpan] = fmt.Sprintf("%016x", 3)
				return list
			},
			want: "[13<1 16<4 17<5 1<0 3<1 4<3 5<4 7<5]",
		},
		"of a caller that is not its": {
			keep: semconv.KeepSDK, replaced: 2, kept: map[int]uint64{DoubleUncalled: 1, DoubleUnrelated: 1},
			change: func(list []sp) []sp {
				list[4].parent = 4
				return list
			},
			want: "[16<4 17<5 1<0 3<1 4<3 5<4 7<4]",
		},
		"ids that lie": {
			keep: semconv.KeepSDK, kept: map[int]uint64{DoubleCyclic: 4},
			change: func(list []sp) []sp {
				list[7].attrs[semconv.SDKSpan] = fmt.Sprintf("%016x", 30) // an SDK's span below the call itself
				return append(list, sp{trace: 1, id: 30, parent: 16, kind: internal, host: "b", start: 62, end: 63})
			},
			want: "[13<1 15<13 16<13 17<15 1<0 30<16 3<1 4<3 5<4 7<5]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := doubles(tc.keep)
			if tc.change != nil {
				list = tc.change(list)
			}
			if tc.want == "" {
				tc.replaced, tc.kept[DoubleUnrelated] = 1, 1
				list[3].parent = 1 // 7, so that no parent is missing
				tc.want = "[15<3 16<4 17<15 1<0 3<1 4<3 7<1]"
			}
			for range 10 { // in any order
				rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				f := newFixture(t, Options{Expiry: time.Second}).add(list...).after(2 * time.Second)
				if got := f.parents(); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
				s := f.a.Stats()
				if s.Complete != 1 || s.Doubles[DoubleReplaced] != tc.replaced || s.Dropped[DropDouble] != tc.replaced {
					t.Errorf("%+v", s)
				}
				for outcome := DoubleAbsent; outcome < doubleOutcomes; outcome++ {
					if tc.keep != "" && s.Doubles[outcome] != tc.kept[outcome] {
						t.Errorf("%s: %d, want %d", DoubleOutcomes[outcome], s.Doubles[outcome], tc.kept[outcome])
					}
				}
				for _, g := range f.given {
					if _, ok := g.Attributes().Get(semconv.SDKKeep); ok {
						t.Error("the rule is still there")
					}
				}
				if s.Received+s.Built != s.Emitted+s.Merged+s.Dropped[DropDouble] {
					t.Errorf("spans are missing: %+v", s)
				}
			}
		})
	}
}

// An SDK sends its spans later than the agent: a trace waits for those that are named, and
// not for ever.
func TestDoubleComesLater(t *testing.T) {
	list := doubles(semconv.KeepSDK)
	f := newFixture(t, Options{Expiry: 10 * time.Second})
	f.add(slices.Concat(list[:1], list[5:])...).after(5 * time.Second)
	if len(f.given) != 0 {
		t.Fatalf("emitted without the SDK's: %s", f.parents())
	}
	f.add(list[1:5]...).after(time.Second)
	if got := f.parents(); got != "[16<4 1<0 3<1 4<3 5<4 7<5]" {
		t.Error(got)
	}
	f = newFixture(t, Options{Expiry: 10 * time.Second})
	f.add(slices.Concat(list[:1], list[5:])...).after(11 * time.Second)
	if s := f.a.Stats(); s.Complete != 1 || s.Emitted != 5 || s.Doubles[DoubleAbsent] != 4 {
		t.Errorf("%+v", s)
	}
}

func FuzzDoubles(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		list := []sp{}
		for i := range 2 + r.IntN(12) {
			s := sp{trace: 1, id: uint64(i + 1), parent: r.Uint64N(uint64(i + 1)), kind: []ptrace.SpanKind{server, client, internal}[r.IntN(3)], start: uint64(i), end: 100}
			if r.IntN(2) == 0 {
				s.attrs = map[string]any{
					semconv.SDKSpan: fmt.Sprintf("%016x", r.IntN(14)), semconv.SDKKeep: []string{semconv.KeepSDK, semconv.KeepTare}[r.IntN(2)],
				}
			}
			list = append(list, s)
		}
		fx := newFixture(t, Options{Expiry: time.Second}).add(list...).flush()
		s := fx.a.Stats()
		if s.Received != s.Emitted+s.Dropped[DropDouble] {
			t.Errorf("spans are missing: %+v", s)
		}
		up := map[uint64]uint64{}
		for _, g := range fx.given {
			up[uint64(g.SpanID()[7])] = uint64(g.ParentSpanID()[7])
		}
		for id := range up {
			steps, at := 0, id
			for at != 0 && steps <= len(up) {
				parent, ok := up[at]
				if !ok {
					t.Fatalf("the parent %d of a span is gone: %v of %+v", at, up, list)
				}
				at = parent
				steps++
			}
			if steps > len(up) {
				t.Fatalf("a cycle: %v of %+v", up, list)
			}
		}
	})
}
