package red

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/tare-trace/tare/agent/kernel"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
)

// fake is a kernel side that says what a test wants.
type fake struct {
	measured  []kernel.Measured
	listeners map[bpf.PortKey]bpf.Service
	err       error
}

func (f *fake) Measures() ([]kernel.Measured, error)            { return f.measured, f.err }
func (f *fake) Listeners() (map[bpf.PortKey]bpf.Service, error) { return f.listeners, nil }
func (f *fake) DropMeasures(keys []bpf.MeasureKey) error {
	f.measured = slices.DeleteFunc(f.measured, func(m kernel.Measured) bool { return !m.Other && slices.Contains(keys, m.Key) })
	return f.err
}
func (f *fake) add(key bpf.MeasureKey, other bool, sum uint64, at ...int) {
	m := kernel.Measured{Key: key, Other: other}
	m.Sum = sum
	for _, i := range at {
		m.Bucket[i]++
	}
	f.measured = append(f.measured, m)
}

var resources = map[uint16]*span.Resource{1: {Service: "web"}, 2: {Service: "store"}, 3: {Service: "web"}}

func resource(i uint16) *span.Resource { return resources[i] }

const (
	server = uint8(bpf.TareRoleTARE_SERVER)
	client = uint8(bpf.TareRoleTARE_CLIENT)
	http   = uint8(bpf.TareProtocolTARE_PROTOCOL_HTTP)
)

func edge(service uint16, netns uint32, address string, port uint16) bpf.MeasureKey {
	a := netip.MustParseAddr(address)
	k := bpf.MeasureKey{Service: service, Role: client, Protocol: http, Outcome: 2, Family: unix.AF_INET, Netns: netns, Port: port}
	if a.Is4() {
		copy(k.Address[:], a.AsSlice())
	} else {
		k.Family, k.Address = unix.AF_INET6, a.As16()
	}
	return k
}

// counts are the numbers of requests by labels.
func counts(t *testing.T, c prometheus.Collector) map[string]uint64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var values []string
			for _, l := range m.Label {
				values = append(values, l.GetName()+"="+l.GetValue())
			}
			n[strings.Join(values, " ")] = m.Histogram.GetSampleCount()
		}
	}
	return n
}

func TestHistogram(t *testing.T) {
	f := &fake{}
	f.add(bpf.MeasureKey{Service: 1, Role: server, Protocol: http, Outcome: 5}, false, 2_500_000_000, 0, 1, len(bpf.Measure{}.Bucket)-1)
	c := New(f, resource, nil, nil)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].Metric[0].Histogram
	if h.GetSampleCount() != 3 || h.GetSampleSum() != 2.5 || len(h.Bucket) != 45 {
		t.Errorf("%d requests, %v s, %d buckets", h.GetSampleCount(), h.GetSampleSum(), len(h.Bucket))
	}
	for i, want := range map[int]struct {
		bound float64
		n     uint64
	}{0: {8192e-9, 1}, 1: {12288e-9, 2}, 2: {16384e-9, 2}, 44: {34.359738368, 2}} {
		if b := h.Bucket[i]; b.GetUpperBound() != want.bound || b.GetCumulativeCount() != want.n {
			t.Errorf("bucket %d: %d up to %v, want %+v", i, b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestLabels(t *testing.T) {
	f := &fake{listeners: map[bpf.PortKey]bpf.Service{{Netns: 7, Port: 80}: {Index: 2}, {Netns: 8, Port: 80}: {Index: 3}}}
	for outcome := range uint8(bpf.TareOutcomeTARE_OUTCOMES) {
		f.add(bpf.MeasureKey{Service: 2, Role: server, Outcome: outcome}, false, 1, 0)
		k := edge(2, 0, "192.0.2.1", 81)
		k.Outcome, k.Protocol = outcome, 3
		f.add(k, false, 1, 0)
	}
	f.add(edge(1, 7, "127.0.0.1", 80), false, 1, 0)
	f.add(edge(3, 7, "::1", 80), false, 1, 0)             // the same names: one series
	f.add(edge(1, 0, "10.0.0.8", 80), false, 1, 0)        // an address of namespace 8
	f.add(edge(1, 0, "::ffff:10.0.0.8", 80), false, 1, 0) // the same
	f.add(edge(1, 9, "127.0.0.1", 80), false, 1, 0)       // nobody listens there
	f.add(edge(9, 0, "2001:db8::1", 443), false, 1, 0)    // a service that is not known
	f.add(bpf.MeasureKey{Role: server, Outcome: 2}, true, 1, 0)
	f.add(bpf.MeasureKey{Role: client, Outcome: 4}, true, 1, 0)
	namespace := func(a netip.Addr) (uint32, bool) { return 8, a == netip.MustParseAddr("10.0.0.8") }
	f.add(edge(1, 0, "10.96.0.7", 80), false, 1, 0) // a service of the cluster
	f.add(edge(1, 0, "10.96.0.7", 81), false, 1, 0) // which has another port
	named := func(a netip.Addr, port uint16) string {
		if a == netip.MustParseAddr("10.96.0.7") && port == 80 || a == netip.MustParseAddr("10.0.0.8") {
			return "stock"
		}
		return ""
	}
	got := counts(t, New(f, resource, namespace, named))
	want := map[string]uint64{
		"client=web error=false peer=store peer_traced=true protocol=http status_class=2xx":                  2,
		"client=web error=false peer=web peer_traced=true protocol=http status_class=2xx":                    2,
		"client=web error=false peer=127.0.0.1:80 peer_traced=false protocol=http status_class=2xx":          1,
		"client=web error=false peer=stock peer_traced=false protocol=http status_class=2xx":                 1,
		"client=web error=false peer=10.96.0.7:81 peer_traced=false protocol=http status_class=2xx":          1,
		"client=unknown error=false peer=[2001:db8::1]:443 peer_traced=false protocol=http status_class=2xx": 1,
		"error=false protocol=other service=other status_class=2xx":                                          1,
		"client=other error=true peer=other peer_traced=false protocol=other status_class=4xx":               1,
	}
	for class, failed := range map[string][2]string{
		"answered": {"false", "false"}, "1xx": {"false", "false"}, "2xx": {"false", "false"}, "3xx": {"false", "false"},
		"4xx": {"false", "true"}, "5xx": {"true", "true"}, "error": {"true", "true"}, "no_response": {"true", "true"}, "reset": {"true", "true"},
	} {
		want["error="+failed[0]+" protocol=tcp service=store status_class="+class] = 1
		want["client=store error="+failed[1]+" peer=192.0.2.1:81 peer_traced=false protocol=redis status_class="+class] = 1
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%q: %d, want %d", k, got[k], n)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("besides: %v", got)
	}
}

// A service that ended keeps its name: a series that was renamed would look
// like new requests.
func TestNamesStay(t *testing.T) {
	f := &fake{listeners: map[bpf.PortKey]bpf.Service{{Netns: 7, Port: 80}: {Index: 2}}}
	f.add(edge(1, 7, "127.0.0.1", 80), false, 1, 0)
	c := New(f, resource, nil, nil)
	before := counts(t, c)
	f.listeners = nil
	after := counts(t, c)
	for k := range before {
		if !strings.Contains(k, "peer=store") || after[k] != 1 {
			t.Errorf("before %v, after %v", before, after)
		}
	}
}

// An address that another service has now counts for that from then on; what
// was measured before stays with the name that it had, as long as something
// counts under it.
func TestAddressIsUsedAgain(t *testing.T) {
	f := &fake{listeners: map[bpf.PortKey]bpf.Service{{Netns: 7, Port: 80}: {Index: 2}}}
	f.add(edge(1, 7, "127.0.0.1", 80), false, 1, 0, 0)
	f.add(edge(1, 7, "127.0.0.1", 81), false, 1, 0)
	c := New(f, resource, nil, nil)
	const (
		store   = "client=web error=false peer=store peer_traced=true protocol=http status_class=2xx"
		web     = "client=web error=false peer=web peer_traced=true protocol=http status_class=2xx"
		nothing = "client=web error=false peer=127.0.0.1:80 peer_traced=false protocol=http status_class=2xx"
	)
	expect := func(want map[string]uint64) {
		t.Helper()
		got := counts(t, c)
		for _, k := range []string{store, web, nothing} {
			if got[k] != want[k] {
				t.Errorf("%q: %d, want %d", k, got[k], want[k])
			}
		}
	}
	expect(map[string]uint64{store: 2})
	f.listeners = map[bpf.PortKey]bpf.Service{{Netns: 7, Port: 80}: {Index: 3}, {Netns: 7, Port: 81}: {Index: 2}}
	expect(map[string]uint64{store: 2}) // nobody asked the new one yet
	f.measured[1].Bucket[0]++
	expect(map[string]uint64{store: 3}) // port 81 is store's now
	f.measured[0].Bucket[0] += 3
	expect(map[string]uint64{store: 3, web: 3})
	delete(f.listeners, bpf.PortKey{Netns: 7, Port: 80})
	f.measured[0].Bucket[0]++
	expect(map[string]uint64{store: 3, nothing: 1})
	if len(c.fed) != 2 || len(c.series) > 3 {
		t.Errorf("%d entries feed %d series", len(c.fed), len(c.series))
	}
}

// What a service that has ended was measured by goes, but for the requests that
// are in a series which goes on: that must not fall.
func TestForget(t *testing.T) {
	f := &fake{}
	f.add(bpf.MeasureKey{Service: 1, Role: server, Outcome: 2}, false, 1, 0, 0)
	f.add(bpf.MeasureKey{Service: 3, Role: server, Outcome: 2}, false, 1, 0) // of the same name
	f.add(edge(1, 7, "127.0.0.1", 80), false, 1, 0)
	f.add(bpf.MeasureKey{Role: server, Outcome: 2}, true, 1, 0)
	c := New(f, resource, nil, nil)
	if n := len(counts(t, c)); n != 3 {
		t.Errorf("%d series", n)
	}
	f.measured[0].Bucket[1]++ // since the last scrape
	if err := c.Forget(1); err != nil {
		t.Fatal(err)
	}
	const web = "error=false protocol=tcp service=web status_class=2xx"
	if got := counts(t, c); got[web] != 4 || len(got) != 2 || len(f.measured) != 2 {
		t.Errorf("%v of %d entries", got, len(f.measured))
	}
	if err := c.Forget(3); err != nil {
		t.Fatal(err)
	}
	f.add(bpf.MeasureKey{Service: 3, Role: server, Outcome: 2}, false, 1, 0) // another service by now
	if got := counts(t, c); got[web] != 1 || len(c.fed) != 2 {
		t.Errorf("%v, fed by %d", got, len(c.fed))
	}
	f.err = errors.New("no such map")
	if err := c.Forget(3); err == nil {
		t.Error("forgot what it could not read")
	}
}

// However many addresses come and go, as many series are kept as the kernel side
// has entries.
func TestBounded(t *testing.T) {
	f := &fake{listeners: map[bpf.PortKey]bpf.Service{}}
	c := New(f, resource, nil, nil)
	for i := range uint16(1000) {
		f.measured = f.measured[:0]
		k := edge(1, 7, "127.0.0.1", i)
		if i%2 == 0 {
			f.listeners[bpf.PortKey{Netns: 7, Port: uint32(i)}] = bpf.Service{Index: 2}
		}
		f.add(k, false, 1, 0)
		counts(t, c)
		if len(c.fed) != 1 || len(c.series) != 1 {
			t.Fatalf("%d entries feed %d series", len(c.fed), len(c.series))
		}
	}
}

func TestSourceFails(t *testing.T) {
	reg := prometheus.NewRegistry()
	why := errors.New("no such map")
	reg.MustRegister(New(&fake{err: why}, resource, nil, nil))
	if _, err := reg.Gather(); err == nil || !strings.Contains(err.Error(), why.Error()) {
		t.Errorf("%v", err)
	}
}
