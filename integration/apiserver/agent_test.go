package apiserver

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// token is one of an account in the namespace tare, as a pod of it has.
func (a *api) token(account string) string {
	a.t.Helper()
	made, err := a.client.CoreV1().ServiceAccounts("tare").CreateToken(a.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	a.must(err)
	return made.Status.Token
}

// ---- the cluster ----

// register tells the API of a node, as its kubelet does.
func (a *api) register(n *node) {
	a.t.Helper()
	made, err := a.client.CoreV1().Nodes().Create(a.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: corev1.NodeSpec{PodCIDR: n.network(), PodCIDRs: []string{n.network()}},
	}, metav1.CreateOptions{})
	a.must(err)
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address}}
	_, err = a.client.CoreV1().Nodes().UpdateStatus(a.t.Context(), made, metav1.UpdateOptions{})
	a.must(err)
	n.translate("10.96.0.1", 443, controlPlane+":"+apiPort) // the API's own service
}

// deploy makes a pod of a deployment in the namespace eu, and tells its status as the kubelet does once its container runs.
func (a *api) deploy(n *node, name string, annotations map[string]string) container {
	a.t.Helper()
	yes := true
	hash := "5d8f7c"
	made, err := a.client.CoreV1().Pods("eu").Create(a.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + hash + "-abcde", Labels: map[string]string{"app": name, "pod-template-hash": hash}, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-" + hash, UID: "1", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{{Name: "main", Image: "registry.example/" + name + ":1.4"}}},
	}, metav1.CreateOptions{})
	a.must(err)
	c := n.newContainer(string(made.UID))
	made.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: c.address, PodIPs: []corev1.PodIP{{IP: c.address}}, HostIP: n.address,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "registry.example/" + name + ":1.4", ImageID: "sha256:00", ContainerID: "containerd://" + c.id, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}
	_, err = a.client.CoreV1().Pods("eu").UpdateStatus(a.t.Context(), made, metav1.UpdateOptions{})
	a.must(err)
	return c
}

// expose makes a service of one pod; its address is the API's choice.
func (a *api) expose(name string, port int32, to container, at int32, nodes ...*node) (address string) {
	a.t.Helper()
	made, err := a.client.CoreV1().Services("eu").Create(a.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	a.must(err)
	yes := true
	_, err = a.client.DiscoveryV1().EndpointSlices("eu").Create(a.t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &at}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{to.address}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
	}, metav1.CreateOptions{})
	a.must(err)
	for _, n := range nodes {
		n.translate(made.Spec.ClusterIP, port, fmt.Sprint(to.address, ":", at))
	}
	return fmt.Sprint(made.Spec.ClusterIP, ":", port)
}

// ---- the agent ----

// agent runs a node's agent as the DaemonSet says: its arguments, environment and capabilities, the account's token, and no
// other way to the API.
func (a *api) agent(n *node, endpoint string) *child {
	a.t.Helper()
	var d appsv1.DaemonSet
	var config string
	for _, o := range objects(a.t, render(a.t, "chart")) {
		switch o.GetKind() + "/" + o.GetName() {
		case "DaemonSet/tare-agent":
			a.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		case "ConfigMap/tare-agent":
			var c corev1.ConfigMap
			a.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c))
			config = strings.Replace(c.Data["agent.yaml"], "namespace: default", "namespace: eu", 1)
		}
	}
	const account = "/run/secrets/kubernetes.io/serviceaccount/"
	authority, err := os.ReadFile(a.certificate())
	a.must(err)
	a.must(os.WriteFile(account+"ca.crt", authority, 0o600))
	a.must(os.WriteFile(account+"token", []byte(a.token("tare-agent")), 0o600))
	file := filepath.Join(a.t.TempDir(), "agent.yaml")
	a.must(os.WriteFile(file, []byte(config), 0o600))
	c := d.Spec.Template.Spec.Containers[0]
	env := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "OTEL_BSP_SCHEDULE_DELAY=100",
		"TARE_INSTANCE=" + n.name, // the nodes are one host here
	}
	for _, v := range c.Env {
		value := v.Value
		switch {
		case v.Name == "OTEL_EXPORTER_OTLP_ENDPOINT":
			value = endpoint
		case v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
			value = n.name
		case v.ValueFrom != nil:
			a.t.Fatalf("what is %s?", v.Name)
		}
		env = append(env, v.Name+"="+value)
	}
	capabilities := "-all"
	for _, name := range c.SecurityContext.Capabilities.Add {
		capabilities += ",+" + strings.ToLower(string(name))
	}
	program, err := filepath.Abs(bin + "tare-agent-kubernetes")
	a.must(err)
	// With a cgroup namespace of its own, as runtimes give one to every container.
	own := container{netns: n.netns, cgroup: newCgroup(a.t, "agent-"+n.name, strings.Repeat(fmt.Sprintf("a%d", n.number), 32))}
	argv := []string{"unshare", "--cgroup", "setpriv", "--bounding-set", capabilities, "--inh-caps", capabilities, program}
	for _, arg := range c.Args {
		argv = append(argv, strings.Replace(arg, "/etc/tare/agent.yaml", file, 1))
	}
	p := own.run(a.t, env, argv...)
	until(a.t, n.name+"'s agent traces", func() bool {
		select {
		case <-p.done:
			a.t.Fatalf("the agent has ended:\n%s", p.log.String())
		default:
		}
		return strings.Contains(p.log.String(), "msg=tracing")
	})
	return p
}

// ---- what it exports ----

// spanOf is a span with its resource.
type spanOf struct {
	trace, id, parent, name string
	server                  bool
	attributes              map[string]string // the resource's, too
}

// sink receives spans by OTLP over HTTP.
type sink struct {
	mu    sync.Mutex
	spans []spanOf
}

func newSink(t *testing.T) (*sink, string) {
	t.Helper()
	l, err := net.Listen("tcp", controlPlane+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	srv := &http.Server{Handler: s} //nolint:gosec // the test's own network
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return s, "http://" + l.Addr().String()
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var request collectorv1.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	add := func(to map[string]string, attributes []*commonv1.KeyValue) {
		for _, a := range attributes {
			if v, ok := a.Value.Value.(*commonv1.AnyValue_StringValue); ok {
				to[a.Key] = v.StringValue
			} else {
				to[a.Key] = a.Value.String()
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range request.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				attributes := map[string]string{}
				add(attributes, rs.Resource.Attributes)
				add(attributes, sp.Attributes)
				s.spans = append(s.spans, spanOf{
					trace: hex.EncodeToString(sp.TraceId), id: hex.EncodeToString(sp.SpanId), parent: hex.EncodeToString(sp.ParentSpanId),
					name: sp.Name, server: sp.Kind.String() == "SPAN_KIND_SERVER", attributes: attributes,
				})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *sink) all() []spanOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spans)
}

// chain is the trace of a request for a path from its entry on, each span the child of the one before; nil while it is not there.
func (s *sink) chain(path string) (chain []spanOf) {
	all := s.all()
	at := slices.IndexFunc(all, func(sp spanOf) bool { return sp.parent == "" && sp.attributes["url.path"] == path })
	for at >= 0 {
		here := all[at]
		chain = append(chain, here)
		at = slices.IndexFunc(all, func(sp spanOf) bool { return sp.trace == here.trace && sp.parent == here.id })
	}
	return chain
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url) //nolint:gosec,noctx // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, r.Status, err, text)
	}
	return string(text)
}

// answers waits until somebody accepts connections there.
func answers(t *testing.T, address string) {
	t.Helper()
	until(t, address+" accepts connections", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// nginx runs a web server in a container.
func nginx(t *testing.T, c container, location string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr; user root;
events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
server { listen 80; location / { %[2]s } } }
`, dir, location)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(t, nil, "nginx", "-c", config)
	answers(t, c.address+":80")
}

// Two nodes, each with an agent that has nothing but the shipped role: nginx → service → counter → service → redis, named by the
// cluster; a pod that declines; and an API server that is killed and comes back.
func TestAgentInCluster(t *testing.T) {
	a := newAPI(t)
	a.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: tare}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: eu}}
`)
	for _, o := range objects(t, render(t, "chart")) {
		if strings.HasPrefix(o.GetKind(), "ClusterRole") || o.GetKind() == "ServiceAccount" {
			a.must(a.create(o))
		}
	}
	one, two := newNode(t, 1), newNode(t, 2)
	one.route(two)
	two.route(one)
	a.register(one)
	a.register(two)

	redis := a.deploy(one, "store", nil)
	redis.run(t, nil, "redis-server", "--bind", redis.address, "--port", "6379", "--save", "", "--protected-mode", "no", "--dir", t.TempDir())
	answers(t, redis.address+":6379")
	store := a.expose("store", 6379, redis, 6379, one, two)
	counter := a.deploy(two, "counter", map[string]string{"resource.opentelemetry.io/service.version": "2.0"})
	program, err := filepath.Abs(bin + "tare-counter")
	a.must(err)
	counter.run(t, []string{"LISTEN=" + counter.address + ":8080", "REDIS_SERVER=" + store}, program)
	answers(t, counter.address+":8080")
	count := a.expose("count", 80, counter, 8080, one, two)
	web := a.deploy(one, "web", nil)
	nginx(t, web, "proxy_pass http://"+count+";")
	quiet := a.deploy(one, "quiet", map[string]string{"tare-trace/trace": "false"})
	nginx(t, quiet, "return 200 quiet;")

	spans, endpoint := newSink(t)
	first := a.agent(one, endpoint)
	a.agent(two, endpoint)

	// traced asks until the whole chain is there: a process is selected once its container is known.
	request := 0
	traced := func(address string, length int) (chain []spanOf) {
		t.Helper()
		until(t, address+"'s requests are traced", func() bool {
			request++
			path := fmt.Sprint("/request/", request)
			get(t, "http://"+address+path)
			// The spans of a request are exported within a second: this is asked again, by another request, if they are not.
			for range 40 {
				if chain = spans.chain(path); len(chain) >= length {
					return true
				}
				time.Sleep(50 * time.Millisecond)
			}
			return false
		})
		return chain
	}
	check := func(chain []spanOf) {
		t.Helper()
		for i, want := range []struct {
			service, pod, node, container string
			server                        bool
			peer, address                 string // of the other end, and of the server as this end knows it
		}{
			{"web", "web-5d8f7c-abcde", "node1", web.id, true, "", web.address},
			{"web", "web-5d8f7c-abcde", "node1", web.id, false, "count", host(count)},
			{"counter", "counter-5d8f7c-abcde", "node2", counter.id, true, "", counter.address},
			{"counter", "counter-5d8f7c-abcde", "node2", counter.id, false, "store", host(store)},
			{"store", "store-5d8f7c-abcde", "node1", redis.id, true, "", redis.address},
		} {
			got := chain[i].attributes
			for key, value := range map[string]string{
				"service.name": want.service, "service.namespace": "eu", "k8s.namespace.name": "eu", "k8s.pod.name": want.pod, "k8s.node.name": want.node,
				"k8s.deployment.name": want.service, "k8s.container.name": "main", "container.id": want.container,
				"container.image.name": "registry.example/" + want.service, "peer.service": want.peer, "server.address": want.address,
			} {
				if got[key] != value {
					t.Errorf("span %d, %s: %s is %q, want %q", i, chain[i].name, key, got[key], value)
				}
			}
			if chain[i].server != want.server || got["k8s.pod.uid"] == "" {
				t.Errorf("span %d: %+v", i, chain[i])
			}
		}
		if v := chain[2].attributes["service.version"]; v != "2.0" {
			t.Errorf("the annotation's service.version is %q", v)
		}
	}
	for range 5 {
		get(t, "http://"+quiet.address+"/")
	}
	check(traced(web.address, 5))

	// Without the API: the agents go on by what they know, and say why.
	a.process.kill()
	until(t, "the agent says that the API does not answer", func() bool {
		// Whichever of its connections is the first to notice gives the reason: refused, reset, or lost.
		return regexp.MustCompile(`the cluster's API does not answer.* error="?[a-z]`).MatchString(first.log.String())
	})
	check(traced(web.address, 5))

	// It comes back, and so does what is new.
	a.start()
	a.ready()
	late := a.deploy(one, "late", nil)
	nginx(t, late, "return 200 late;")
	chain := traced(late.address, 1)
	if got := chain[0].attributes; got["service.name"] != "late" || got["k8s.pod.name"] != "late-5d8f7c-abcde" || got["container.id"] != late.id {
		t.Errorf("%+v", chain[0])
	}
	if !strings.Contains(first.log.String(), "the cluster's API answers") {
		t.Error("it does not say that the API answers again")
	}
	check(traced(web.address, 5))
	for _, sp := range spans.all() {
		if strings.HasPrefix(sp.attributes["k8s.pod.name"], "quiet") || sp.attributes["service.name"] == "quiet" {
			t.Errorf("a pod that declines is traced: %+v", sp)
		}
	}
}

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return h
}
