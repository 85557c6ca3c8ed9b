package apiserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// secrets are directories with what Secrets hold, by name.
type secrets map[string]string

// newSecrets makes those that testdata/everything.yaml of deploy/render names, with the names that docs/kubernetes.md lists.
func newSecrets(t *testing.T) secrets {
	t.Helper()
	authority, key := certificate(t, nil, nil, "authority")
	s := secrets{}
	for name, hosts := range map[string][]string{
		"tare-tls":  {"tare-gateway.tare.svc", "*.tare-tracing.tare.svc", "tare-store.tare.svc"},
		"tare-page": {"traces.example"},
	} {
		cert, own := certificate(t, authority, key, hosts...)
		der, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		s[name] = directory(t, map[string][]byte{
			"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}),
			"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		})
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("reader's"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s["tare-page-users"] = directory(t, map[string][]byte{"htpasswd": append([]byte("reader:"), hash...)})
	return s
}

// certificate is one for names, by an authority; without one it is an authority's.
func certificate(t *testing.T, by *x509.Certificate, key *ecdsa.PrivateKey, names ...string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.DNSNames, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil, nil
		by, key = c, own
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, own
}

// directory is one that every user may read.
func directory(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { //nolint:gosec // others read it
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // others read it
			t.Fatal(err)
		}
	}
	return dir
}

// deployment is the collectors of a rendering, each pod in a network namespace of its own.
type deployment struct {
	t       *testing.T
	node    *node
	hosts   string
	configs map[string]string // directories of ConfigMaps
	secrets secrets
}

// collect starts all pods, and gives their containers by name.
func (d *deployment) collect(all []*unstructured.Unstructured) map[string]container {
	d.t.Helper()
	var templates []*unstructured.Unstructured
	for _, o := range all {
		switch o.GetKind() {
		case "ConfigMap":
			var c corev1.ConfigMap
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
				d.t.Fatal(err)
			}
			files := map[string][]byte{}
			for name, text := range c.Data {
				files[name] = []byte(text)
			}
			d.configs[c.Name] = directory(d.t, files)
		case "Deployment", "StatefulSet":
			templates = append(templates, o)
		}
	}
	placed := map[string]container{}
	var names strings.Builder
	names.WriteString("127.0.0.1 localhost\n")
	type waiting struct {
		at  container
		pod corev1.Pod
	}
	var pending []waiting
	for _, o := range templates {
		replicas, _, err := unstructured.NestedFloat64(o.Object, "spec", "replicas")
		if err != nil {
			d.t.Fatal(err)
		}
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pods(d.t, o)[0].Object, &pod); err != nil {
			d.t.Fatal(err)
		}
		for i := range int(replicas) {
			name := fmt.Sprint(o.GetName(), "-", i)
			c := d.node.newContainer(name)
			placed[name] = c
			pending = append(pending, waiting{c, pod})
			// A stateful set's pods have names; a service's own is here that of its first pod.
			fmt.Fprintf(&names, "%s %s.%s.tare.svc\n", c.address, name, o.GetName())
			if i == 0 {
				fmt.Fprintf(&names, "%s %s.tare.svc\n", c.address, o.GetName())
			}
		}
	}
	d.hosts = filepath.Join(directory(d.t, map[string][]byte{"hosts": []byte(names.String())}), "hosts")
	for _, w := range pending {
		d.run(w.at, &w.pod)
	}
	for name, c := range placed {
		until(d.t, name+" is ready", func() bool {
			r, err := http.Get("http://" + c.address + ":13133/") //nolint:noctx // as the kubelet asks
			if err != nil {
				return false
			}
			_ = r.Body.Close()
			return r.StatusCode == http.StatusOK
		})
	}
	return placed
}

// run starts a collector as its pod says: arguments, mounts, user, and no capability.
func (d *deployment) run(c container, pod *corev1.Pod) {
	d.t.Helper()
	spec := pod.Spec.Containers[0]
	script := `set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
mount -t tmpfs tmpfs /var/lib
cp "$2" /etc/hosts
`
	for _, m := range spec.VolumeMounts {
		script += "mkdir -p " + m.MountPath + "\n"
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				script += "cp -r " + d.configs[v.ConfigMap.Name] + "/. " + m.MountPath + "\n"
			case v.Secret != nil:
				script += "cp -r " + d.secrets[v.Secret.SecretName] + "/. " + m.MountPath + "\n"
			case v.PersistentVolumeClaim != nil:
				script += fmt.Sprintf("chgrp %d %s; chmod 2775 %s\n", *pod.Spec.SecurityContext.FSGroup, m.MountPath, m.MountPath)
			default:
				d.t.Fatalf("what is the volume %s?", v.Name)
			}
		}
	}
	user := fmt.Sprint(*pod.Spec.SecurityContext.RunAsUser)
	script += `shift 2; exec setpriv --reuid ` + user + ` --regid ` + user + ` --clear-groups --inh-caps -all --bounding-set -all --no-new-privs "$@"`
	program, err := filepath.Abs(bin + "tare")
	if err != nil {
		d.t.Fatal(err)
	}
	argv := append([]string{"unshare", "--mount", "sh", "-c", script, "sh", d.t.TempDir(), d.hosts, program}, spec.Args...)
	c.run(d.t, []string{"HOME=/var/lib/tare", "XDG_STATE_HOME=/var/lib"}, argv...)
}

// The shipped collectors, as their pods say: traces in pieces, to all gateways, come out whole in the store and on the page; plain,
// and with certificates on every way and a page with a password.
func TestCollectors(t *testing.T) {
	for name, args := range map[string][]string{"plain": {"chart"}, "everything": {"chart", "testdata/everything.yaml"}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 1)
			secure := name == "everything"
			d := &deployment{t: t, node: n, configs: map[string]string{}, secrets: newSecrets(t)}
			placed := d.collect(objects(t, render(t, args...)))

			client, scheme := &http.Client{}, "http"
			if secure {
				pair, err := tls.LoadX509KeyPair(filepath.Join(d.secrets["tare-tls"], "tls.crt"), filepath.Join(d.secrets["tare-tls"], "tls.key"))
				if err != nil {
					t.Fatal(err)
				}
				client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities(t, d.secrets["tare-tls"]), Certificates: []tls.Certificate{pair}, ServerName: "tare-gateway.tare.svc", MinVersion: tls.VersionTLS13}}
				scheme = "https"
			}
			var gateways []string
			for pod, c := range placed {
				if strings.HasPrefix(pod, "tare-gateway-") {
					gateways = append(gateways, scheme+"://"+c.address+":4318/v1/traces")
				}
			}
			const traces = 100
			ids := map[string]bool{}
			for range traces {
				root, child := make([]byte, 8), make([]byte, 8)
				trace := make([]byte, 16)
				for _, id := range [][]byte{trace, root, child} {
					if _, err := rand.Read(id); err != nil {
						t.Fatal(err)
					}
				}
				ids[hex.EncodeToString(trace)] = true
				send(t, client, gateways[0], "web", &tracev1.Span{TraceId: trace, SpanId: root, Name: "GET /", Kind: tracev1.Span_SPAN_KIND_SERVER})
				send(t, client, gateways[len(gateways)-1], "shop", &tracev1.Span{TraceId: trace, SpanId: child, ParentSpanId: root, Name: "GET /item", Kind: tracev1.Span_SPAN_KIND_SERVER})
			}
			store := placed["tare-store-0"]
			if secure {
				refused := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities(t, d.secrets["tare-tls"]), ServerName: "tare-gateway.tare.svc", MinVersion: tls.VersionTLS13}}}
				if r, err := refused.Post(gateways[0], "application/x-protobuf", nil); err == nil { //nolint:noctx // it is refused
					_ = r.Body.Close()
					t.Error("a client without a certificate is served")
				}
			}
			read := func() []byte {
				const search = "/api/v1/traces?limit=1000&state=complete"
				if !secure {
					// On the pod's loopback address, as kubectl port-forward reaches it.
					out, err := exec.CommandContext(t.Context(), "nsenter", "--net="+netnsFile(store.netns), "python3", "-c",
						"import urllib.request,sys; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())", "http://127.0.0.1:4680"+search).Output()
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				page := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities(t, d.secrets["tare-page"]), ServerName: "traces.example", MinVersion: tls.VersionTLS12}}}
				return pageText(t, page, "https://"+store.address+":4680"+search)
			}
			var found struct {
				Traces []struct {
					TraceID string `json:"trace_id"`
					Spans   int
				}
			}
			until(t, "all traces are whole in the store", func() bool {
				text := read()
				if err := json.Unmarshal(text, &found); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				return len(found.Traces) >= traces
			})
			for _, got := range found.Traces {
				if got.Spans != 2 || !ids[got.TraceID] {
					t.Errorf("trace %s with %d spans", got.TraceID, got.Spans)
				}
			}
		})
	}
}

func authorities(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	return pool
}

// pageText asks as a user who may, after it has been refused to one who gives no password.
func pageText(t *testing.T, client *http.Client, url string) []byte {
	t.Helper()
	ask := func(password string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth("reader", password)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		var b bytes.Buffer
		if _, err := b.ReadFrom(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, b.Bytes()
	}
	if status, _ := ask(""); status != http.StatusUnauthorized {
		t.Fatalf("without a password: status %d", status)
	}
	status, text := ask("reader's")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	return text
}

// send exports one span of a service.
func send(t *testing.T, client *http.Client, url, service string, sp *tracev1.Span) {
	t.Helper()
	now := time.Now()
	sp.StartTimeUnixNano, sp.EndTimeUnixNano = uint64(now.Add(-time.Millisecond).UnixNano()), uint64(now.UnixNano()) //nolint:gosec // after 1970
	body, err := proto.Marshal(&collectorv1.ExportTraceServiceRequest{ResourceSpans: []*tracev1.ResourceSpans{{
		Resource:   &resourcev1.Resource{Attributes: []*commonv1.KeyValue{{Key: "service.name", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: service}}}}},
		ScopeSpans: []*tracev1.ScopeSpans{{Spans: []*tracev1.Span{sp}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Post(url, "application/x-protobuf", bytes.NewReader(body)) //nolint:noctx // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, r.Status)
	}
}
