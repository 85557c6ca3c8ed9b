package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	bin = "../../bin/"
	// patience is how long anything may take; a machine may have much else to do.
	patience = 2 * time.Minute
	// The cluster's network, of which the test's own namespace is the control plane.
	controlPlane = "198.51.100.1"
	apiPort      = "6443"
	inside       = "TARE_TEST_IN_NAMESPACE"
)

// TestMain runs the tests in network and mount namespaces of their own, which end with them.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	if os.Geteuid() != 0 {
		fmt.Println("root is needed: namespaces are made, and kernel programs loaded")
		os.Exit(1)
	}
	for _, name := range []string{"tare", "tare-apiserver", "tare-agent-kubernetes", "tare-render", "tare-counter"} {
		if _, err := os.Stat(bin + name); err != nil {
			fmt.Println("make test-cluster builds what is run:", err)
			os.Exit(1)
		}
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	const script = `set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/secrets/kubernetes.io/serviceaccount
[ -L /var/run ] || mount --rbind /run /var/run
ip link set lo up
ip link add cluster type bridge
ip address add ` + controlPlane + `/24 dev cluster
ip link set cluster up
exec "$@"`
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "sh", "-c", script, "sh", self}, os.Args[1:]...)...) //nolint:gosec // itself
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child is a process that runs until its test ends.
type child struct {
	cmd  *exec.Cmd
	log  buffer
	done chan struct{}
}

// buffer is what a process has written so far.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, env []string, argv ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})} //nolint:gosec // the tests' own
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.cmd.WaitDelay = time.Second // what its own children have open
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(argv, " "), tail(c.log.String()))
		}
	})
	return c
}

func tail(text string) string {
	if len(text) > 8000 {
		text = "…" + text[len(text)-8000:]
	}
	return text
}

func (c *child) kill() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // all of its group may have ended
	<-c.done
}

// until waits for what holds at last.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func command(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput() //nolint:gosec,noctx // the tests' own, also after the test's context has ended
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}

// api is an API server with its administrator.
type api struct {
	t       *testing.T
	dir     string
	process *child
	config  *rest.Config
	client  *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
	mapper  meta.RESTMapper
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(a.dir, "tokens.csv"), []byte("administrator,administrator,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.start()
	until(t, "the server has its certificate", func() bool { // whose key it writes after it
		a.alive()
		key, err := os.Stat(filepath.Join(a.dir, "apiserver.key"))
		return err == nil && key.Size() > 0
	})
	a.config = &rest.Config{
		Host: "https://" + controlPlane + ":" + apiPort, BearerToken: "administrator", QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAFile: a.certificate()},
	}
	a.client = kubernetes.NewForConfigOrDie(a.config)
	a.dynamic = dynamic.NewForConfigOrDie(a.config)
	a.ready()
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClientForConfigOrDie(a.config))
	if err != nil {
		t.Fatal(err)
	}
	a.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return a
}

func (a *api) certificate() string { return filepath.Join(a.dir, "apiserver.crt") }

// start begins the server, or begins it again with what it knew.
func (a *api) start() {
	a.t.Helper()
	a.process = start(a.t, nil, bin+"tare-apiserver", "-dir", a.dir, "-address", controlPlane, "-port", apiPort, "-tokens", filepath.Join(a.dir, "tokens.csv"))
}

func (a *api) alive() {
	a.t.Helper()
	select {
	case <-a.process.done:
		a.t.Fatal("the API server has ended")
	default:
	}
}

// ready waits until it answers and has made what it makes of itself.
func (a *api) ready() {
	a.t.Helper()
	until(a.t, "the API server is ready", func() bool {
		a.alive()
		text, err := a.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(a.t.Context())
		if err != nil || string(text) != "ok" {
			return false
		}
		_, err = a.client.SchedulingV1().PriorityClasses().Get(a.t.Context(), "system-node-critical", metav1.GetOptions{})
		return err == nil
	})
}

// resource is where objects of a kind are.
func (a *api) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	a.t.Helper()
	kind := o.GroupVersionKind()
	m, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		a.t.Fatal(err)
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return a.dynamic.Resource(m.Resource).Namespace(o.GetNamespace())
	}
	return a.dynamic.Resource(m.Resource)
}

// create makes an object, and refuses fields that the API does not know.
func (a *api) create(o *unstructured.Unstructured) error {
	a.t.Helper()
	made, err := a.resource(o).Create(a.t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err == nil && o.GetKind() == "Namespace" {
		// As a controller would, without which no pod is admitted.
		a.must(a.create(manifest("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: " + made.GetName() + "}}")))
	}
	return err
}

func (a *api) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// apply makes objects of text.
func (a *api) apply(text string) {
	a.t.Helper()
	for _, o := range objects(a.t, text) {
		if err := a.create(o); err != nil {
			a.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func (a *api) remove(o *unstructured.Unstructured) {
	a.t.Helper()
	now := int64(0)
	background := metav1.DeletePropagationBackground
	a.must(a.resource(o).Delete(context.WithoutCancel(a.t.Context()), o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}))
}

// objects are those of a manifest.
func objects(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all = append(all, &o)
		}
	}
}

func manifest(text string) *unstructured.Unstructured {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err)
	}
	return &o
}
