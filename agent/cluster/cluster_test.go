package cluster

import (
	"maps"
	"testing"
)

func shop() *Container {
	return &Container{
		Name: "web", Image: "registry.example:5000/shop/web:1.4@sha256:00",
		Pod: &Pod{
			Namespace: "eu", Name: "shop-5d8f-abcde", UID: "u1", Node: "n1",
			Labels: map[string]string{}, Annotations: map[string]string{},
			Owners: []Owner{{"ReplicaSet", "shop-5d8f"}, {"Deployment", "shop"}},
		},
	}
}

func TestServiceName(t *testing.T) {
	c := shop()
	for _, step := range []struct {
		set  func()
		want string
	}{
		{func() {}, "shop"},
		{func() { c.Pod.Labels["app.kubernetes.io/name"] = "by-name" }, "by-name"},
		{func() { c.Pod.Labels["app.kubernetes.io/instance"] = "by-instance" }, "by-instance"},
		{func() { c.Pod.Annotations["resource.opentelemetry.io/service.name"] = "by-annotation" }, "by-annotation"},
		{func() { c = shop(); c.Pod.Owners = nil }, "shop-5d8f-abcde"},
	} {
		if step.set(); c.ServiceName() != step.want {
			t.Errorf("%q, want %q", c.ServiceName(), step.want)
		}
	}
}

func TestAttributes(t *testing.T) {
	c := shop()
	want := map[string]string{
		"k8s.namespace.name": "eu", "k8s.pod.name": "shop-5d8f-abcde", "k8s.pod.uid": "u1", "k8s.node.name": "n1",
		"k8s.container.name": "web", "k8s.replicaset.name": "shop-5d8f", "k8s.deployment.name": "shop",
		"container.image.name": "registry.example:5000/shop/web",
		"service.namespace":    "eu", "service.version": "1.4", "service.instance.id": "eu.shop-5d8f-abcde.web",
	}
	if got := c.Attributes(); !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	c.Pod.Labels["app.kubernetes.io/version"] = "2"
	c.Pod.Annotations = map[string]string{
		"resource.opentelemetry.io/service.name": "not here", "resource.opentelemetry.io/service.namespace": "other",
		"resource.opentelemetry.io/team": "red", "resource.opentelemetry.io/": "no key", "other/team": "no resource",
	}
	want["service.version"], want["service.namespace"], want["team"] = "2", "other", "red"
	if got := c.Attributes(); !maps.Equal(got, want) {
		t.Errorf("annotated: %v\nwant %v", got, want)
	}
}

func TestImageWithoutATag(t *testing.T) {
	for image, want := range map[string][2]string{
		"nginx":                 {"nginx", ""},
		"nginx:1":               {"nginx", "1"},
		"host:5000/nginx":       {"host:5000/nginx", ""},
		"host:5000/nginx@sha:0": {"host:5000/nginx", ""},
		"":                      {"", ""},
	} {
		if name, tag := splitImage(image); [2]string{name, tag} != want {
			t.Errorf("%s: %q, %q", image, name, tag)
		}
	}
}
