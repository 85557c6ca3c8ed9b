package discover

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/span"
)

// containers is a cluster that says what a test has in it.
type containers map[string]*cluster.Container

func (c containers) Watch(context.Context, func(), func()) error { return nil }
func (c containers) Container(id string) *cluster.Container      { return c[id] }
func (c containers) Service(netip.Addr, uint16) string           { return "" }
func (c containers) Networks() []netip.Prefix                    { return nil }

// What the cluster says selects and names, and a pod may decline.
func TestCluster(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	in := containers{}
	add := func(pid int, namespace, workload string, labels, annotations map[string]string) {
		id := strings.Repeat("0", 62) + string(rune('0'+pid/10)) + string(rune('0'+pid%10))
		f.add(fakeProcess{pid: pid, exe: "/app/server", cgroup: "/kubepods/pod1/" + id, netns: pid}, "", "")
		in[id] = &cluster.Container{Name: "main", Pod: &cluster.Pod{
			Namespace: namespace, Name: workload + "-0", Labels: labels, Annotations: annotations, Owners: []cluster.Owner{{Kind: "StatefulSet", Name: workload}},
		}}
	}
	add(10, "eu", "shop", map[string]string{"tier": "web"}, nil)
	add(11, "eu", "db", nil, nil)
	add(12, "us", "shop", map[string]string{"tier": "web"}, map[string]string{"team": "red"})
	add(13, "eu", "shy", nil, map[string]string{cluster.Trace: "false"})
	f.add(fakeProcess{pid: 14, exe: "/app/server", cgroup: "/system.slice/x.service", netns: 14}, "", "")
	f.add(fakeProcess{pid: 15, exe: "/app/server", cgroup: "/kubepods/pod1/" + strings.Repeat("f", 64), netns: 15}, "", "") // not known yet

	for _, c := range []struct {
		rules string
		want  string // names, by pid
	}{
		{"namespace: eu", "10 shop, 11 db"},
		{"namespace: '*'", "10 shop, 11 db, 12 shop"},
		{"workload: '*/shop'", "10 shop, 12 shop"},
		{"{workload: 'StatefulSet/shop', namespace: us, name: here}", "12 here"},
		{"labels: {tier: w*}", "10 shop, 12 shop"},
		{"{labels: {tier: web}, annotations: {team: red}}", "12 shop"},
		{"executable: /app/server", "10 shop, 11 db, 12 shop, 14 x, 15 server"},
	} {
		s := New(f.root, rules(t, "TARE_CONFIG="+file(t, "kubernetes: on\nservices:\n  - "+c.rules+"\n")), in)
		ps, err := s.Scan()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range ps {
			got = append(got, fmt.Sprint(p.PID, " ", p.Service.Name))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", c.rules, got, c.want)
		}
	}

	s := New(f.root, rules(t, "TARE_KUBERNETES=on", "TARE_NAMESPACES=us", "OTEL_RESOURCE_ATTRIBUTES=service.namespace=mine"), in)
	p, ok, err := inspect(s, 12)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, want := range []span.Attr{
		span.String("k8s.namespace.name", "us"), span.String("k8s.statefulset.name", "shop"), span.String("container.id", p.ContainerID),
		span.String("service.namespace", "mine"), // what the user says wins
	} {
		if !slices.Contains(p.Service.Attrs, want) {
			t.Errorf("no %s=%s in %v", want.Key, want.Text(), p.Service.Attrs)
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
