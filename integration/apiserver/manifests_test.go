package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// render is what deploy/render gives.
func render(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../../bin/tare-render", args...)
	cmd.Dir = "../../deploy/render"
	cmd.Path, _ = filepath.Abs(bin + "tare-render")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// pods are what controllers would make of an object: its template, with the claims that a StatefulSet adds.
func pods(t *testing.T, o *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return nil
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(o.GetName() + "-0")
	pod.SetNamespace(o.GetNamespace())
	claims, _, err := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		t.Fatal(err)
	}
	volumes, _, err := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	if err != nil {
		t.Fatal(err)
	}
	all := []*unstructured.Unstructured{}
	for _, c := range claims {
		claim := &unstructured.Unstructured{Object: c.(map[string]any)}
		name := claim.GetName()
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + pod.GetName()}})
	}
	if len(volumes) > 0 {
		if err := unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes"); err != nil {
			t.Fatal(err)
		}
	}
	return append(all, pod)
}

// Everything that is shipped is accepted, without a field that the API does not know: the objects, and the pods that
// controllers would make of them, with Pod Security as the namespaces ask for it.
func TestManifestsAreAccepted(t *testing.T) {
	a := newAPI(t)
	namespace, err := os.ReadFile("../../deploy/kubernetes/base/namespace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a.apply(string(namespace))
	values, err := filepath.Glob("../../deploy/render/testdata/*.yaml")
	if err != nil || len(values) < 3 {
		t.Fatal(values, err)
	}
	texts := map[string]string{"the chart": render(t, "chart"), "plain": render(t, "kustomize", "../kubernetes/base"), "thesis": render(t, "kustomize", "../kubernetes/thesis")}
	for _, file := range values {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		texts[name] = render(t, "chart", "testdata/"+name+".yaml")
	}
	made := map[string]bool{"Namespace/tare": true} // a namespace stays: only a controller could end it
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			all := objects(t, text)
			if len(all) < 5 {
				t.Fatalf("%d objects only", len(all))
			}
			// Namespaces are the first, as kubectl has it.
			slices.SortStableFunc(all, func(x, y *unstructured.Unstructured) int {
				first := func(o *unstructured.Unstructured) int {
					if o.GetKind() == "Namespace" {
						return 0
					}
					return 1
				}
				return first(x) - first(y)
			})
			var accepted []*unstructured.Unstructured
			seen := 0
			for _, o := range all {
				if o.GetKind() == "Namespace" {
					if key := "Namespace/" + o.GetName(); !made[key] {
						made[key] = true
						a.must(a.create(o))
					}
					continue
				}
				for i, each := range append([]*unstructured.Unstructured{o}, pods(t, o)...) {
					if err := a.create(each); err != nil {
						t.Errorf("%s %s: %v", each.GetKind(), each.GetName(), err)
						continue
					}
					accepted = append(accepted, each)
					seen += min(i, 1)
				}
			}
			if seen == 0 {
				t.Error("no pod was made")
			}
			for _, o := range slices.Backward(accepted) {
				a.remove(o)
			}
		})
	}
}

// Where Pod Security allows less, the agent's pod is refused, as docs/kubernetes.md says, and the collectors' are not.
func TestPodSecurity(t *testing.T) {
	a := newAPI(t)
	a.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: tare, labels: {pod-security.kubernetes.io/enforce: restricted}}}`)
	for _, o := range objects(t, render(t, "chart")) {
		if o.GetName() == "tare-agent" && o.GetKind() == "ServiceAccount" {
			a.must(a.create(o))
		}
	}
	created := 0
	for _, o := range objects(t, render(t, "chart")) {
		for _, p := range pods(t, o) {
			err := a.create(p)
			switch {
			case p.GetName() != "tare-agent-0":
				created++
				if err != nil {
					t.Errorf("%s: %v", p.GetName(), err)
				}
			case err == nil || !strings.Contains(err.Error(), "violates PodSecurity"):
				t.Errorf("%s: %v", p.GetName(), err)
			}
		}
	}
	if created != 3 {
		t.Errorf("%d pods of collectors", created)
	}
}

// The agent's account may list and watch five kinds of objects, beyond what everybody may, and nothing else.
func TestRoleOnlyReads(t *testing.T) {
	a := newAPI(t)
	everybody := `{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tare}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: anyone, namespace: tare}}
`
	a.apply(everybody)
	for _, o := range objects(t, render(t, "chart")) {
		if strings.HasPrefix(o.GetKind(), "ClusterRole") || o.GetKind() == "ServiceAccount" {
			a.must(a.create(o))
		}
	}
	rules := func(account, namespace string) (all []string) {
		config := rest.AnonymousClientConfig(a.config)
		config.BearerToken = a.token(account)
		review, err := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
		a.must(err)
		for _, r := range review.Status.ResourceRules {
			for _, verb := range r.Verbs {
				for _, resource := range r.Resources {
					all = append(all, verb+" "+strings.Join(append(r.APIGroups, resource), "/"))
				}
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for _, namespace := range []string{"tare", "other"} {
		anyone := rules("anyone", namespace)
		got := slices.DeleteFunc(rules("tare-agent", namespace), func(r string) bool { return slices.Contains(anyone, r) })
		want := []string{
			"list /nodes", "list /pods", "list /services", "list discovery.k8s.io/endpointslices", "list networking.k8s.io/servicecidrs",
			"watch /nodes", "watch /pods", "watch /services", "watch discovery.k8s.io/endpointslices", "watch networking.k8s.io/servicecidrs",
		}
		if !slices.Equal(got, want) {
			t.Errorf("in %s: %q, want %q", namespace, got, want)
		}
	}
}
