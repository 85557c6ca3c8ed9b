// Package cluster says what a cluster knows of this node's containers and of addresses,
// and how OpenTelemetry names it. Package kubernetes, below, asks the cluster; this one
// does not know how, so that an agent without a cluster does not link what that takes.
package cluster

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
)

// Source is a cluster, as the agent needs it. Its methods may be called by several
// goroutines, and answer from what was learned last: while the cluster cannot be asked,
// that stays.
type Source interface {
	// Watch follows the cluster until ctx ends. It calls changed when a container, or
	// Networks, may have changed, and ready once all of this node was learned, or could not
	// be within some seconds.
	Watch(ctx context.Context, ready, changed func()) error
	// Container finds a container of this node by its id; nil if it is not known (yet).
	Container(id string) *Container
	// Service is the name of the service that has an address, its own or that of a
	// container behind it; "" if there is none, or several.
	Service(addr netip.Addr, port uint16) string
	// Networks are those of the cluster's pods, services and nodes.
	Networks() []netip.Prefix
}

// Owner is what a pod belongs to, such as {"Deployment", "shop"}.
type Owner struct{ Kind, Name string }

// Pod is a pod of this node.
type Pod struct {
	Namespace, Name, UID, Node string
	Labels, Annotations        map[string]string
	Owners                     []Owner // the one that made it first, then what that belongs to
}

// Container is one container of a pod.
type Container struct {
	Pod   *Pod
	Name  string
	Image string // as the pod names it
}

// Annotations of pods.
const (
	// Trace is an annotation: "false" keeps a pod from being traced, whatever selects it.
	Trace = "tare-trace/trace"
	// resourcePrefix begins annotations that name resource attributes.
	resourcePrefix = "resource.opentelemetry.io/"
)

// Labels that Kubernetes recommends.
const (
	labelInstance = "app.kubernetes.io/instance"
	labelName     = "app.kubernetes.io/name"
	labelVersion  = "app.kubernetes.io/version"
)

// Declined reports whether the pod is not to be traced.
func (p *Pod) Declined() bool { return p.Annotations[Trace] == "false" }

// Workload is what the pod belongs to in the end; of a pod that nobody made, the pod.
func (p *Pod) Workload() Owner {
	if n := len(p.Owners); n > 0 {
		return p.Owners[n-1]
	}
	return Owner{"Pod", p.Name}
}

// ServiceName is service.name by OpenTelemetry's rules for Kubernetes: annotation, labels,
// workload. A container that an init system or a mesh adds has the same name as the rest
// of its pod, as there.
func (c *Container) ServiceName() string {
	p := c.Pod
	return cmp.Or(p.Annotations[resourcePrefix+"service.name"], p.Labels[labelInstance], p.Labels[labelName], p.Workload().Name, c.Name)
}

// ownerAttributes are the resource attributes for kinds of owners.
var ownerAttributes = map[string]string{
	"CronJob": "k8s.cronjob.name", "DaemonSet": "k8s.daemonset.name", "Deployment": "k8s.deployment.name",
	"Job": "k8s.job.name", "ReplicaSet": "k8s.replicaset.name", "StatefulSet": "k8s.statefulset.name",
}

// Attributes are the resource attributes that the cluster gives the container, without
// service.name and container.id: those of OpenTelemetry's conventions for Kubernetes, and
// over them what annotations say.
func (c *Container) Attributes() map[string]string {
	p := c.Pod
	image, tag := splitImage(c.Image)
	attrs := map[string]string{
		"k8s.namespace.name":   p.Namespace,
		"k8s.pod.name":         p.Name,
		"k8s.pod.uid":          p.UID,
		"k8s.node.name":        p.Node,
		"k8s.container.name":   c.Name,
		"container.image.name": image,
		"service.namespace":    p.Namespace,
		"service.version":      cmp.Or(p.Labels[labelVersion], tag),
		"service.instance.id":  p.Namespace + "." + p.Name + "." + c.Name,
	}
	for _, o := range p.Owners {
		if key := ownerAttributes[o.Kind]; key != "" {
			attrs[key] = o.Name
		}
	}
	for key, v := range p.Annotations {
		if key, ok := strings.CutPrefix(key, resourcePrefix); ok && key != "" && key != "service.name" {
			attrs[key] = v
		}
	}
	for key, v := range attrs {
		if v == "" {
			delete(attrs, key)
		}
	}
	return attrs
}

// splitImage parts "host:5000/shop:1.4@sha256:…" into its name and its tag.
func splitImage(image string) (name, tag string) {
	name, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i], name[i+1:]
	}
	return name, ""
}
