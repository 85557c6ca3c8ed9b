// Package kubernetes learns from a cluster's API what runs on this node and what the
// addresses in the cluster are: by watches of this node's pods, of services, their
// endpoints and ranges, and of nodes. It only reads. While the API cannot be reached, what
// was learned stays, and client-go tries again.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/tare-trace/tare/agent/cluster"
	"github.com/tare-trace/tare/agent/config"
)

// firstSync is how long Watch waits for the API before it calls ready nevertheless.
const firstSync = 10 * time.Second

// Client is a cluster.Source.
type Client struct {
	log       *slog.Logger
	api       string // its address
	informers map[string]cache.SharedIndexInformer
	pods      cache.Indexer
	services  cache.Indexer
	slices    cache.Indexer
	nodes     cache.Store
	ranges    cache.Store

	mu      sync.Mutex
	failing map[string]failure // by what is watched
}

type failure struct {
	what string
	told time.Time
}

// tellAgain is how often a failure is told that stays the same.
const tellAgain = 10 * time.Minute

// Indices of what is watched.
const (
	byContainer = "container" // pods by the ids of their containers
	byAddress   = "address"   // services and endpoint slices
)

// Open prepares to watch the cluster that the configuration names, and does not ask it yet.
func Open(of *config.Config, log *slog.Logger) (cluster.Source, error) {
	if of.Node == "" {
		return nil, errors.New("this node's name is not known: set NODE_NAME (in a pod by fieldRef: spec.nodeName) or --node")
	}
	cfg, err := restConfig(of.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the API's address: %w", err)
	}
	klog.SetSlogLogger(log) // of what client-go logs without a context
	return newClient(cfg, of.Node, log)
}

func newClient(cfg *rest.Config, node string, log *slog.Logger) (*Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Client{log: log, api: cfg.Host, informers: map[string]cache.SharedIndexInformer{}, failing: map[string]failure{}}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observed{c, next} })
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	watch := func(group schema.GroupVersion, resource string, object runtime.Object, only fields.Selector, trim cache.TransformFunc, indexers cache.Indexers) (cache.SharedIndexInformer, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.GroupVersion, cfg.NegotiatedSerializer = &group, codecs
		cfg.APIPath = "/apis"
		if group.Group == "" {
			cfg.APIPath = "/api"
		}
		client, err := rest.RESTClientFor(cfg)
		if err != nil {
			return nil, err
		}
		list := cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) { o.FieldSelector = only.String() })
		i := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(list, client), object, 0, indexers)
		c.informers[resource] = i
		return i, errors.Join(i.SetTransform(trim), i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { c.failed(resource, err) }))
	}
	all := fields.Everything()
	pods, err1 := watch(corev1.SchemeGroupVersion, "pods", &corev1.Pod{}, fields.OneTermEqualSelector("spec.nodeName", node), transform(trimPod), cache.Indexers{byContainer: index(idsOf)})
	services, err2 := watch(corev1.SchemeGroupVersion, "services", &corev1.Service{}, all, transform(trimService), cache.Indexers{byAddress: index(serviceAddresses)})
	endpoints, err3 := watch(discoveryv1.SchemeGroupVersion, "endpointslices", &discoveryv1.EndpointSlice{}, all, trimMeta, cache.Indexers{byAddress: index(sliceAddresses)})
	nodes, err4 := watch(corev1.SchemeGroupVersion, "nodes", &corev1.Node{}, all, transform(trimNode), cache.Indexers{})
	ranges, err5 := watch(networkingv1.SchemeGroupVersion, "servicecidrs", &networkingv1.ServiceCIDR{}, all, trimMeta, cache.Indexers{})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	c.pods, c.services, c.slices, c.nodes, c.ranges = pods.GetIndexer(), services.GetIndexer(), endpoints.GetIndexer(), nodes.GetStore(), ranges.GetStore()
	return c, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	cfg.UserAgent = "tare-agent"
	return cfg, nil
}

// Watch is cluster.Source's.
func (c *Client) Watch(ctx context.Context, ready, changed func()) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(c.log.Handler())))
	defer cancel()
	synced := []cache.InformerSynced{}
	for _, resource := range []string{"pods", "nodes", "servicecidrs"} { // what calls for a look; the others are only looked up
		_, err := c.informers[resource].AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() },
			UpdateFunc: func(before, after any) { // a node's status is told every few minutes
				if differs(before, after) {
					changed()
				}
			},
			DeleteFunc: func(any) { changed() },
		})
		if err != nil {
			return err
		}
	}
	for _, i := range c.informers {
		group.Go(func() { i.RunWithContext(ctx) })
		synced = append(synced, i.HasSynced)
	}
	limited, stop := context.WithTimeout(ctx, firstSync)
	defer stop()
	if cache.WaitForCacheSync(limited.Done(), synced...) {
		ready()
	} else if ctx.Err() == nil {
		c.log.Warn("cluster metadata is incomplete; pods get their attributes when the API answers", "api", c.api, "waited", firstSync)
		ready()
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			c.log.Info("cluster metadata is complete", "api", c.api)
		}
	}
	<-ctx.Done()
	return nil
}

// differs reports whether something changed that matters here; what was trimmed does not.
func differs(before, after any) bool {
	switch a := after.(type) {
	case *corev1.Pod:
		b, ok := before.(*corev1.Pod)
		return !ok || !podsEqual(a, b)
	case *corev1.Node:
		b, ok := before.(*corev1.Node)
		return !ok || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) || !slices.Equal(a.Status.Addresses, b.Status.Addresses)
	}
	return true
}

func podsEqual(a, b *corev1.Pod) bool {
	return a.UID == b.UID && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(idsOf(a), idsOf(b))
}

// failed says what cannot be watched, and what that means.
func (c *Client) failed(resource string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return // answered has said it
	}
	if resource == "servicecidrs" && apierrors.IsNotFound(err) { // before Kubernetes 1.33
		err = errors.New("this cluster has no ServiceCIDR objects (Kubernetes 1.33): name the network of its services in trust")
	}
	what := err.Error()
	if apierrors.IsForbidden(err) {
		what = "not allowed to watch it: see the ClusterRole in docs/agent.md#in-a-cluster"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.failing[resource]; before.what == what && time.Since(before.told) < tellAgain {
		return
	}
	c.failing[resource] = failure{what, time.Now()}
	c.log.Warn("the cluster cannot be watched; what was learned stays", "resource", resource, "error", what)
}

// observed sees whether the API answers: client-go tries again without a word where a
// connection is refused, and tells of other errors only what it asked for.
type observed struct {
	client *Client
	next   http.RoundTripper
}

// RoundTrip is http.RoundTripper's.
func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if r.Context().Err() == nil {
		o.client.answered(err)
	}
	return response, err
}

// WrappedRoundTripper is for client-go, which looks for the transport below.
func (o observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// silent is the key in Client.failing for an API that does not answer.
const silent = ""

// answered says that the API does not answer, why, and that it answers again.
func (c *Client) answered(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, failing := c.failing[silent]
	switch {
	case err == nil && failing:
		delete(c.failing, silent)
		c.log.Info("the cluster's API answers", "api", c.api)
	case err != nil && (!failing || time.Since(before.told) >= tellAgain):
		c.failing[silent] = failure{err.Error(), time.Now()}
		c.log.Warn("the cluster's API does not answer; what was learned stays", "api", c.api, "error", err)
	}
}

// Container is cluster.Source's.
func (c *Client) Container(id string) *cluster.Container {
	found, err := c.pods.ByIndex(byContainer, id)
	if err != nil || len(found) == 0 {
		return nil
	}
	pod, ok := found[0].(*corev1.Pod)
	if !ok {
		return nil
	}
	for status := range statuses(pod) {
		if bareID(status.ContainerID) == id {
			return &cluster.Container{Pod: podOf(pod), Name: status.Name, Image: status.Image}
		}
	}
	return nil
}

func podOf(p *corev1.Pod) *cluster.Pod {
	return &cluster.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName,
		Labels: p.Labels, Annotations: p.Annotations, Owners: ownersOf(p),
	}
}

// scheduled is the name of a Job that a CronJob has made: the minute is appended.
var scheduled = regexp.MustCompile(`^(.+)-[0-9]{8,10}$`)

// ownersOf are the pod's controller, and what that belongs to as its name tells: Kubernetes
// names a ReplicaSet of a Deployment and a Job of a CronJob after it.
func ownersOf(p *corev1.Pod) []cluster.Owner {
	by := metav1.GetControllerOf(p)
	if by == nil || by.Kind == "Node" { // a static pod
		return nil
	}
	owners := []cluster.Owner{{Kind: by.Kind, Name: by.Name}}
	switch by.Kind {
	case "ReplicaSet":
		hash := p.Labels["pod-template-hash"]
		if name, ok := strings.CutSuffix(by.Name, "-"+hash); ok && hash != "" {
			owners = append(owners, cluster.Owner{Kind: "Deployment", Name: name})
		}
	case "Job":
		if m := scheduled.FindStringSubmatch(by.Name); m != nil {
			owners = append(owners, cluster.Owner{Kind: "CronJob", Name: m[1]})
		}
	}
	return owners
}

// Service is cluster.Source's.
func (c *Client) Service(addr netip.Addr, port uint16) string {
	addr = addr.Unmap()
	found, err := c.services.ByIndex(byAddress, addr.String())
	if err == nil && len(found) == 1 {
		if s, ok := found[0].(*corev1.Service); ok {
			return s.Name
		}
	}
	found, err = c.slices.ByIndex(byAddress, addr.String())
	name := ""
	for _, o := range found {
		s, ok := o.(*discoveryv1.EndpointSlice)
		if !ok || err != nil || !servesPort(s, port) {
			continue
		}
		service := s.Labels[discoveryv1.LabelServiceName]
		if name != "" && service != name {
			return "" // of several services
		}
		name = service
	}
	return name
}

func servesPort(s *discoveryv1.EndpointSlice, port uint16) bool {
	for _, p := range s.Ports {
		if p.Port == nil || *p.Port == int32(port) { // nil: all
			return true
		}
	}
	return false
}

// Networks is cluster.Source's: nodes' ranges for pods and addresses of their own, and the
// ranges of services' addresses (ServiceCIDR, Kubernetes 1.33).
func (c *Client) Networks() []netip.Prefix {
	var all []netip.Prefix
	add := func(text string) {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		} else if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, o := range c.nodes.List() {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		for _, cidr := range n.Spec.PodCIDRs {
			add(cidr)
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				add(a.Address)
			}
		}
	}
	for _, o := range c.ranges.List() {
		if r, ok := o.(*networkingv1.ServiceCIDR); ok {
			for _, cidr := range r.Spec.CIDRs {
				add(cidr)
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// ---- what is kept of each object ----

// statuses yields the containers of a pod that have run or run.
func statuses(p *corev1.Pod) func(yield func(*corev1.ContainerStatus) bool) {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// bareID is a container's id without its runtime: "containerd://0123…".
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

func idsOf(p *corev1.Pod) (ids []string) {
	for s := range statuses(p) {
		if id := bareID(s.ContainerID); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// index makes an index of what keys of an object are.
func index[T any](keys func(T) []string) cache.IndexFunc {
	return func(o any) ([]string, error) {
		t, ok := o.(T)
		if !ok {
			return nil, nil
		}
		return keys(t), nil
	}
}

// canonical are those of texts that are addresses; the ClusterIP of a headless service is "None".
func canonical(texts []string) (all []string) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.String())
		}
	}
	return all
}

func serviceAddresses(s *corev1.Service) []string {
	return canonical(slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs))
}

func sliceAddresses(s *discoveryv1.EndpointSlice) (all []string) {
	for i := range s.Endpoints {
		all = append(all, canonical(s.Endpoints[i].Addresses)...)
	}
	return all
}

// transform trims objects before they are kept. What is trimmed may come again, as client-go's
// lists by watch have it: trimming that must change nothing.
func transform[T any](trim func(T) T) cache.TransformFunc {
	return func(o any) (any, error) {
		if t, ok := o.(T); ok {
			return trim(t), nil
		}
		return o, nil
	}
}

func trimMeta(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	return o, nil
}

func trimPod(p *corev1.Pod) *corev1.Pod {
	images := map[string]string{} // a status may have a hash instead
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			images[list[i].Name] = list[i].Image
		}
	}
	kept := func(list []corev1.ContainerStatus) (all []corev1.ContainerStatus) {
		for i := range list {
			all = append(all, corev1.ContainerStatus{Name: list[i].Name, Image: cmp.Or(images[list[i].Name], list[i].Image), ContainerID: list[i].ContainerID})
		}
		return all
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, Annotations: p.Annotations, OwnerReferences: p.OwnerReferences,
		},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status: corev1.PodStatus{
			ContainerStatuses: kept(p.Status.ContainerStatuses), InitContainerStatuses: kept(p.Status.InitContainerStatuses),
			EphemeralContainerStatuses: kept(p.Status.EphemeralContainerStatuses),
		},
	}
}

func trimService(s *corev1.Service) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Spec:       corev1.ServiceSpec{ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs},
	}
}

func trimNode(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion},
		Spec:       corev1.NodeSpec{PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
}
