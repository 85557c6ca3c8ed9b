package kubernetes

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/internal/testkit"
)

const (
	id1 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	id2 = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
)

// api lists objects and streams changes of them as an API server does, in JSON.
type api struct {
	mu      sync.Mutex
	objects map[string][]runtime.Object // by resource
	streams map[string]chan event
	asked   map[string]string // query by resource
	closing chan struct{}
}

type event struct {
	Type   string         `json:"type"`
	Object runtime.Object `json:"object"`
}

func newAPI(t *testing.T) (*api, *Client) {
	t.Helper()
	a := &api{objects: map[string][]runtime.Object{}, streams: map[string]chan event{}, asked: map[string]string{}, closing: make(chan struct{})}
	s := httptest.NewServer(a)
	t.Cleanup(func() { close(a.closing); s.Close() })
	c, err := newClient(&rest.Config{Host: s.URL}, "n1", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	a.mu.Lock()
	a.asked[resource] = r.URL.Query().Get("fieldSelector")
	first := a.objects[resource]
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	if r.URL.Query().Get("watch") == "" {
		kind := map[string]string{"pods": "PodList", "services": "ServiceList", "nodes": "NodeList", "endpointslices": "EndpointSliceList", "servicecidrs": "ServiceCIDRList"}[resource]
		version := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"+resource), "/apis/"), "/api/")
		_ = out.Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]string{"resourceVersion": "1"}, "items": first})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" { // as one that does not know this
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = out.Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		return
	}
	_ = http.NewResponseController(w).Flush()
	stream := a.stream(resource)
	for {
		select {
		case e := <-stream:
			if out.Encode(e) != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-a.closing:
			return
		}
	}
}

// stream is what changes of a resource go through, to the one watch of it.
func (a *api) stream(resource string) chan event {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[resource] == nil {
		a.streams[resource] = make(chan event, 16)
	}
	return a.streams[resource]
}

func (a *api) tell(resource, kind string, o runtime.Object) { a.stream(resource) <- event{kind, o} }

func (a *api) selector(resource string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[resource]
}

func pod(id string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "eu", Name: "shop-5d8f-abcde", UID: "u1", ResourceVersion: "2", Labels: map[string]string{"pod-template-hash": "5d8f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "shop-5d8f", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web", Image: "shop:1.4"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "sha256:00", ContainerID: "containerd://" + id}}},
	}
}

func watch(t *testing.T, c *Client) (changed chan struct{}) {
	t.Helper()
	ready := make(chan struct{})
	changed = make(chan struct{}, 100)
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.Watch(t.Context(), func() { close(ready) }, func() { changed <- struct{}{} }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(group.Wait) // t.Context ends before
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("never ready")
	}
	return changed
}

// until waits for what a change brings.
func until(t *testing.T, changed chan struct{}, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("never %s", what)
		}
	}
}

func TestContainersOfThisNode(t *testing.T) {
	a, c := newAPI(t)
	a.objects["pods"] = []runtime.Object{pod(id1)}
	changed := watch(t, c)
	if got := a.selector("pods"); got != "spec.nodeName=n1" {
		t.Errorf("asked for pods by %q", got)
	}
	got := c.Container(id1)
	if got == nil || got.Name != "web" || got.Image != "shop:1.4" || got.Pod.Name != "shop-5d8f-abcde" || got.Pod.Node != "n1" ||
		got.Pod.Workload() != (cluster.Owner{Kind: "Deployment", Name: "shop"}) {
		t.Fatalf("%+v", got)
	}
	if c.Container(id2) != nil {
		t.Error("a container that there is not")
	}
	restarted := pod(id2)
	restarted.ResourceVersion = "3"
	a.tell("pods", "MODIFIED", restarted)
	until(t, changed, "restarted", func() bool { return c.Container(id2) != nil })
	if c.Container(id1) != nil {
		t.Error("the container before is still known")
	}
	a.tell("pods", "DELETED", restarted)
	until(t, changed, "gone", func() bool { return c.Container(id2) == nil })
}

func TestNamesOfAddresses(t *testing.T) {
	a, c := newAPI(t)
	port := int32(8080)
	slice := func(name, service, address string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "eu", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		}
	}
	a.objects["services"] = []runtime.Object{
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "eu", Name: "shop"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.7", "fd00::7"}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "eu", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"None"}}},
	}
	a.objects["endpointslices"] = []runtime.Object{
		slice("s1", "shop", "10.244.0.3"), slice("s2", "shop", "10.244.0.4"), slice("s3", "both", "10.244.0.4"), slice("s4", "six", "fd01::0:3"),
	}
	watch(t, c)
	for address, want := range map[string]string{
		"10.96.0.7": "shop", "fd00::7": "shop", "::ffff:10.96.0.7": "shop", // the service's own
		"10.244.0.3": "shop", "fd01::3": "six",
		"10.244.0.4": "", // of two services
		"10.244.0.9": "", "None": "",
	} {
		addr, _ := netip.ParseAddr(address)
		if got := c.Service(addr, 8080); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if got := c.Service(netip.MustParseAddr("10.244.0.3"), 22); got != "" {
		t.Errorf("another port: %q", got)
	}
}

func TestNetworks(t *testing.T) {
	a, c := newAPI(t)
	node := func(name, cidr, address string) *corev1.Node {
		return &corev1.Node{
			TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "2"}, Spec: corev1.NodeSpec{PodCIDRs: []string{cidr}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}}},
		}
	}
	a.objects["nodes"] = []runtime.Object{node("n1", "10.244.0.0/24", "192.0.2.1")}
	a.objects["servicecidrs"] = []runtime.Object{&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00::/112"}}}}
	changed := watch(t, c)
	want := []string{"10.96.0.0/16", "10.244.0.0/24", "192.0.2.1/32", "fd00::/112"}
	has := func(want ...string) func() bool {
		return func() bool {
			var got []string
			for _, p := range c.Networks() {
				got = append(got, p.String())
			}
			slices.Sort(got)
			slices.Sort(want)
			return slices.Equal(got, want)
		}
	}
	if !has(want...)() {
		t.Fatalf("%v, want %v", c.Networks(), want)
	}
	a.tell("nodes", "ADDED", node("n2", "10.244.1.0/24", "192.0.2.2"))
	until(t, changed, "a second node", has(append(want, "10.244.1.0/24", "192.0.2.2/32")...))
}

// lines are what is logged.
type lines chan string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

func (l lines) await(t *testing.T, parts ...string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		case <-deadline:
			t.Fatalf("never logged: %q", parts)
		}
	}
}

// An API that refuses connections, which client-go does not tell of, and then does not.
func TestWhyTheAPIDoesNotAnswer(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	address := s.Listener.Addr().String()
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	logged := make(lines, 1000)
	c, err := newClient(&rest.Config{Host: "http://" + address}, "n1", slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.Watch(t.Context(), func() {}, func() {}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(group.Wait)
	logged.await(t, "level=WARN", "does not answer", address, "connection refused")
	a := &api{objects: map[string][]runtime.Object{}, streams: map[string]chan event{}, asked: map[string]string{}, closing: make(chan struct{})}
	s.Listener = testkit.Listen(t, address)
	s.Config.Handler = a
	s.Start()
	t.Cleanup(func() { close(a.closing); s.Close() })
	logged.await(t, "level=INFO", "the cluster's API answers", address)
}

func TestOwners(t *testing.T) {
	yes := true
	for _, c := range []struct {
		kind, name, hash string
		want             []cluster.Owner
	}{
		{"ReplicaSet", "shop-5d8f", "5d8f", []cluster.Owner{{Kind: "ReplicaSet", Name: "shop-5d8f"}, {Kind: "Deployment", Name: "shop"}}},
		{"ReplicaSet", "alone", "", []cluster.Owner{{Kind: "ReplicaSet", Name: "alone"}}},
		{"Job", "nightly-29012345", "", []cluster.Owner{{Kind: "Job", Name: "nightly-29012345"}, {Kind: "CronJob", Name: "nightly"}}},
		{"Job", "once-2", "", []cluster.Owner{{Kind: "Job", Name: "once-2"}}},
		{"StatefulSet", "db", "", []cluster.Owner{{Kind: "StatefulSet", Name: "db"}}},
		{"Node", "n1", "", nil},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"pod-template-hash": c.hash}, OwnerReferences: []metav1.OwnerReference{{Kind: c.kind, Name: c.name, Controller: &yes}},
		}}
		if got := ownersOf(p); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.kind, c.name, got, c.want)
		}
	}
}

// What is kept of an object must hold what is looked up.
func TestTrimmedPodKeepsItsContainers(t *testing.T) {
	trimmed, err := transform(trimPod)(pod(id1))
	p, ok := trimmed.(*corev1.Pod)
	if err != nil || !ok {
		t.Fatal(err)
	}
	if got := idsOf(p); !slices.Equal(got, []string{id1}) {
		t.Errorf("%v", got)
	}
	if got := p.Status.ContainerStatuses[0].Image; got != "shop:1.4" {
		t.Errorf("image %q", got)
	}
	again, err := transform(trimPod)(p.DeepCopy())
	if err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("trimmed again: %+v, %v", again, err)
	}
	if !podsEqual(p, p.DeepCopy()) {
		t.Error("a copy differs")
	}
	other := p.DeepCopy()
	other.Annotations = map[string]string{"tare-trace/trace": "false"}
	if podsEqual(p, other) {
		t.Error("an annotation is no difference")
	}
}
