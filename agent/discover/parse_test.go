package discover

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/runtime"
	"github.com/tare-trace/tare/agent/tier"
)

func TestCgroup(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct{ cgroup, unit, container, name string }{
		{"/system.slice/nginx.service", "nginx", "", "nginx"},
		{"/system.slice/postgresql@15-main.service", "postgresql@15-main", "", "postgresql@15-main"},
		{`/system.slice/a\x2db.service/worker`, "a-b", "", "a-b"},
		{"/system.slice/ssh.service", "ssh", "", ""},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service", "shop", "", "shop"},
		{"/user.slice/user-1000.slice/user@1000.service/init.scope", "", "", ""},
		{"/user.slice/user-0.slice/session-3.scope", "", "", ""},
		{"/system.slice/docker-" + id + ".scope", "", id, ""},
		{"/docker/" + id, "", id, ""},
		{"/system.slice/docker.service/docker/" + id, "", id, ""},
		{"/system.slice/docker-" + id + ".scope/system.slice/app.service", "app", id, "app"},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + id + ".scope", "", id, ""},
		{"/kubepods/besteffort/pod1/" + id, "", id, ""},
		{"/machine.slice/libpod-" + id + ".scope/container", "", id, ""},
		{"/kubepods.slice/crio-conmon-" + id + ".scope", "", "", ""},
		{"/kubepods.slice/crio-" + id + ".scope", "", id, ""},
		{"/ecs/task/0123456789abcdef0123456789abcdef-1234567890", "", "0123456789abcdef0123456789abcdef-1234567890", ""},
		{"/kubepods/burstable/pod1/crio-" + id, "", id, ""},
		{"/../../kubelet-kubepods-pod1.slice/cri-containerd-" + id + ".scope", "", id, ""}, // seen from a namespace of cgroups
		{"/", "", "", ""},
		{"", "", "", ""},
	} {
		unit := unitOf(tt.cgroup)
		if unit != tt.unit || containerIn(tt.cgroup) != tt.container || nameOfUnit(unit) != tt.name {
			t.Errorf("%s: unit %q, container %q, name %q", tt.cgroup, unit, containerIn(tt.cgroup), nameOfUnit(unit))
		}
	}
}

// A host may have containers in version 1 of cgroups only, beside a tree of version 2.
func TestContainerOfAnyVersion(t *testing.T) {
	inner, outer := strings.Repeat("0123456789abcdef", 4), strings.Repeat("fedcba9876543210", 4)
	for text, want := range map[string]string{
		"12:cpu,cpuacct:/kubepods/burstable/pod1/" + inner + "\n1:name=systemd:/kubepods/burstable/pod1/" + inner + "\n0::/\n": inner,
		"4:memory:/kubepods.slice/kubepods-pod1.slice/crio-" + inner + ".scope\n0::/system.slice/crio.service\n":               inner,
		"1:name=systemd:/docker/" + outer + "\n0::/docker/" + outer + "/kubepods.slice/cri-containerd-" + inner + ".scope\n":   inner,
		"1:name=systemd:/init.scope\n0::/init.scope\n":                                                                         "",
		"": "",
	} {
		if got := containerOf(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("1:cpu:/\n0::/system.slice/a\\x2.service (deleted)\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := parseCgroup(text)
		if unit := unitOf(path); unit == "" && nameOfUnit(unit) != "" {
			t.Errorf("a name from nothing: %q", text)
		}
		containerOf(text)
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S " + strings.Repeat("1 ", 18) + "77 0"))
	f.Add([]byte("1 (a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseStat(text); err != nil && got != (stat{}) {
			t.Errorf("%v with %v", got, err)
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(tableHead + row(80, 10, 5) + row(80, 1, 0)))
	f.Add([]byte("a b:zz c 0A e f g h i 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = parseTable(bytes.NewReader(text), func(l line) bool { // an error is fine, a panic is not
			if l.inode == 0 {
				t.Error("a socket of nobody")
			}
			return true
		})
	})
}

func FuzzBracketed(f *testing.F) {
	f.Add("socket:[123]")
	f.Fuzz(func(t *testing.T, link string) {
		if n, ok := bracketed(link, "socket:"); !ok && n != 0 && !strings.HasPrefix(link, "socket:[") {
			t.Errorf("%q is %d", link, n)
		}
	})
}

// Of unix sockets, the stream sockets that listen are found, and what may be received on.
func TestUnixTable(t *testing.T) {
	found := tables{needs: map[uint64]tier.Demand{}, others: map[uint64]other{}}
	err := found.parseUnix(strings.NewReader(`Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01    11 /run/a b.sock
0000000000000000: 00000002 00000000 00010000 0001 01    12 @abstract
0000000000000000: 00000003 00000000 00000000 0001 03    13 /run/a b.sock
0000000000000000: 00000002 00000000 00010000 0005 01    14 /run/udev/control
0000000000000000: 00000002 00000000 00000000 0002 01    15
0000000000000000: 00000003 00000000 00000000 0001 03    16
0000000000000000: 00000003 00000000 00000000 0005 03    17
cut off
`))
	if want := map[uint64]other{11: otherNamed, 12: otherNamed, 13: otherNamed, 14: otherNamed, 16: otherUnnamed, 17: otherUnnamed}; !maps.Equal(found.others, want) {
		t.Errorf("others %v, want %v", found.others, want)
	}
	if err != nil || len(found.needs) != 2 || found.needs[11] != tier.Unix || found.needs[12] != tier.Unix {
		t.Errorf("%v, %v", found.needs, err)
	}
}

// Of UDP sockets, those that are connected to a server of names are found, and all.
func TestUDPTable(t *testing.T) {
	found := tables{needs: map[uint64]tier.Demand{}, others: map[uint64]other{}}
	err := found.parseUDP(strings.NewReader(`   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  100: 0100007F:C350 3500007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 11 2 0000000000000000 0
  101: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 0000000000000000 0
  102: 0100007F:0035 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 13 2 0000000000000000 0
  103: 00000000000000000000000001000000:C350 00000000000000000000000001000000:0035 01 00000000:00000000 00:00000000 00000000     0        0 14 2 0000000000000000 0
cut off
`))
	if err != nil || len(found.needs) != 2 || found.needs[11] != tier.Lookups || found.needs[14] != tier.Lookups {
		t.Errorf("%v, %v", found.needs, err)
	}
	if len(found.others) != 4 || found.others[13] != otherNamed {
		t.Errorf("others %v", found.others)
	}
}

// An event loop may receive what is not TCP's if it has UDP, a unix socket with a name, or one
// without that no other process has: a connection. What is inherited is a channel between its
// own processes, where its runtime has such; a parent alone has its end of that to its only worker. Where nothing is
// known, it may.
func TestTurns(t *testing.T) {
	channels, pairs := &runtime.Runtime{Channels: true}, &runtime.Runtime{}
	others := map[uint64]other{1: otherUnnamed, 2: otherUnnamed, 3: otherUnnamed, 4: otherNamed}
	for name, c := range map[string]struct {
		runtime *runtime.Runtime
		linking config.Linking
		others  map[uint64]other
		sockets []uint64 // beside those of another process: 1, 2, 9
		parent  int      // of the other process; 7 is this one
		want    bool
	}{
		"channels":            {channels, config.Loop, others, []uint64{1, 2, 9}, 1, false},
		"a connection":        {channels, config.Loop, others, []uint64{1, 3}, 1, true},
		"a name":              {channels, config.Loop, others, []uint64{1, 4}, 1, true},
		"nothing":             {channels, config.Loop, others, nil, 1, false},
		"not listed":          {channels, config.Loop, nil, nil, 1, true},
		"another runtime":     {pairs, config.Loop, others, nil, 1, true},
		"by a rule":           {nil, config.Loop, others, nil, 1, true},
		"not an event loop":   {channels, config.Thread, others, []uint64{3, 4}, 1, false},
		"TCP of one's own, 9": {channels, config.Loop, others, []uint64{9, 10}, 1, false},
		"the only worker's":   {channels, config.Loop, others, []uint64{1, 3}, 7, false},
	} {
		s := Scanner{others: c.others}
		found := []Process{
			{PID: 7, Sockets: c.sockets, Runtime: c.runtime, Service: Service{Linking: c.linking}},
			{PID: 8, parent: c.parent, Sockets: []uint64{1, 2, 9}, Service: Service{Linking: config.Thread}},
		}
		s.turns(found)
		if found[0].Turns != c.want || found[1].Turns {
			t.Errorf("%s: %v, %v", name, found[0].Turns, found[1].Turns)
		}
	}
}
