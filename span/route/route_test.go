package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestShape(t *testing.T) {
	for path, want := range map[string]string{
		"": "/", "/": "/", "//": "/", "/cart": "/cart", "/cart/": "/cart", "cart": "/cart",
		"/item/17": "/item/{id}", "/item/17?a=b": "/item/{id}", "/item/17#x": "/item/{id}", "/item;v=1/x": "/item",
		"http://shop:8080/item/17": "/item/{id}", "http://shop:8080": "/", "/v1/items": "/v1/items", "/oauth2/token": "/oauth2/token",
		"/u/123e4567-e89b-12d3-a456-426614174000/edit": "/u/{id}/edit", "/blob/3f2504e0": "/blob/{id}", "/blob/deadbeef": "/blob/deadbeef",
		"/log/2024-05-01": "/log/{id}", "/ip/10.0.0.1": "/ip/{id}", "/user/anna@example.com": "/user/{id}", "/q/caf%C3%A9": "/q/{id}",
		"/img/4711.jpg": "/img/{id}", "/app.js": "/app.js", "/app.3f2504e0.js": "/app.3f2504e0.js", "/t/01ARZ3NDEKTSV4RRFFQ69G5FAV": "/t/{id}",
		"/internationalization-guidelines": "/internationalization-guidelines", "/" + strings.Repeat("a", 65): "/{id}",
		"/how-to-build-a-house-in-30-days": "/how-to-build-a-house-in-30-days",
		strings.Repeat("/a", 17):           strings.Repeat("/a", 16) + "/*", "/größe": "/größe", "/-": "/-",
	} {
		if got := Shape(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func ask(t *testing.T, l *Learner, path string) string {
	t.Helper()
	route, ok := l.Route("shop", path, true)
	if !ok {
		t.Fatalf("%s has no route", path)
	}
	return route
}

// Words become values when more than Words of them were seen at a place, and then for
// all paths, those that were seen before too; other places are as they were.
func TestManyWordsAreValues(t *testing.T) {
	l := NewLearner()
	name := func(i int) string { return "user-" + strings.Repeat("x", i) + "y" }
	for i := range Words {
		if got, want := ask(t, l, "/users/"+name(i%40)+"/orders"), "/users/"+name(i%40)+"/orders"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	for i := range 40 { // again and again: no other words
		ask(t, l, "/users/"+name(i)+"/orders")
	}
	if got := ask(t, l, "/users/"+name(0)+"/orders"); got == "/users/{id}/orders" {
		t.Fatal("40 words are taken for values")
	}
	for i := 40; i <= Words; i++ {
		ask(t, l, "/users/"+name(i)+"/orders")
	}
	for path, want := range map[string]string{
		"/users/" + name(0) + "/orders": "/users/{id}/orders", "/users/" + name(49) + "/orders": "/users/{id}/orders",
		"/users/new": "/users/{id}", "/users/17/orders/18": "/users/{id}/orders/{id}", "/users": "/users", "/cart/a": "/cart/a",
	} {
		if got := ask(t, l, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got, ok := l.Route("other", "/users/"+name(0), true); got != "/users/"+name(0) || !ok {
		t.Errorf("of another group: %s %v", got, ok)
	}
}

func TestUnknownPathsAreNotLearned(t *testing.T) {
	l := NewLearner()
	ask(t, l, "/cart/7")
	for i := range 2 * Words {
		if route, ok := l.Route("shop", fmt.Sprintf("/wp-%c%c", 'a'+i%26, 'a'+i/26), false); ok {
			t.Fatalf("route %s", route)
		}
	}
	if route, ok := l.Route("shop", "/cart/8", false); !ok || route != "/cart/{id}" {
		t.Errorf("%s %v", route, ok)
	}
	if _, ok := l.Route("none", "/", false); ok {
		t.Error("an unknown group has a route")
	}
	if got := ask(t, l, "/new"); got != "/new" {
		t.Error(got)
	}
}

// The same paths lead to the same routes in any order, and a route only ever becomes
// one of fewer words: it does not flap.
func TestOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var paths []string
	for i := range 60 {
		paths = append(paths, fmt.Sprintf("/users/%s/orders", word(i)), "/users/"+word(i), fmt.Sprintf("/files/%s/%s", word(i%8), word(i)),
			fmt.Sprintf("/api/%s/%d", word(i%5), i), fmt.Sprintf("/tags/%s/%s/top", word(i%45), word(i)))
	}
	var want map[string]string
	for range 50 {
		rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		l := NewLearner()
		ids := map[string]int{}
		for range 2 {
			for _, p := range paths {
				n := strings.Count(ask(t, l, p), ID)
				if n < ids[p] {
					t.Fatalf("%s has %d values, and had %d", p, n, ids[p])
				}
				ids[p] = n
			}
		}
		got := map[string]string{}
		for _, p := range paths {
			got[p] = ask(t, l, p)
		}
		if want == nil {
			want = got
		}
		for p := range got {
			if got[p] != want[p] {
				t.Fatalf("%s: %s, in another order %s", p, got[p], want[p])
			}
		}
	}
	for _, r := range []string{"/users/{id}/orders", "/files/" + word(1) + "/" + word(1), "/api/" + word(1) + "/{id}"} {
		found := false
		for _, g := range want {
			found = found || g == r
		}
		if !found {
			t.Errorf("no route %s", r)
		}
	}
}

func word(i int) string { return strings.Repeat(string(rune('g'+i%19)), 1+i/19) }

func TestBounds(t *testing.T) {
	l := NewLearner()
	for g := range maxGroups + 10 {
		for i := range 200 {
			_, ok := l.Route(fmt.Sprint("group", g), fmt.Sprintf("/%s/%s/%s", word(i%40), word(i/3%45), word(i)), true)
			if ok != (g < maxGroups) {
				t.Fatalf("group %d: %v", g, ok)
			}
		}
	}
	// At the bound a node becomes one for values, which may add one for each there is.
	if n := l.nodes.Load(); n > 2*maxNodes {
		t.Errorf("%d nodes", n)
	}
	one := NewLearner()
	for i := range 40 * 40 * 40 {
		one.Route("a", fmt.Sprintf("/%s/%s/%s", word(i%40), word(i/40%40), word(i/1600)), true)
	}
	count := 0
	var walk func(n *node)
	walk = func(n *node) {
		for _, m := range n.words {
			count++
			walk(m)
		}
		if n.value != nil {
			count++
			walk(n.value)
		}
	}
	walk(&one.trees["a"].root)
	if count != one.trees["a"].nodes || int64(count) != one.nodes.Load() || count > 2*maxTree {
		t.Errorf("%d nodes, counted %d, of all %d", count, one.trees["a"].nodes, one.nodes.Load())
	}
}

func TestConcurrent(t *testing.T) {
	l := NewLearner()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				l.Route(fmt.Sprint(i%7), fmt.Sprintf("/%s/%d/%s", word(i%61), i, word((i+g)%71)), i%5 > 0)
			}
		})
	}
	wg.Wait()
	if got, ok := l.Route("1", "/"+word(3)+"/5/"+word(2), true); !ok || got != "/{id}/{id}/{id}" {
		t.Errorf("%s %v", got, ok)
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("/a/b/17", "http://x/y?z")
	f.Fuzz(func(t *testing.T, a, b string) {
		l := NewLearner()
		for _, p := range []string{a, b, a} {
			route, ok := l.Route("g", p, true)
			if !ok || route != Shape(p) || route[0] != '/' || strings.Count(route, "/") > maxSegments+1 {
				t.Fatalf("%q: %q %v, shape %q", p, route, ok, Shape(p))
			}
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	l := NewLearner()
	b.ReportAllocs()
	for b.Loop() {
		l.Route("shop", "/api/v1/items/4711/reviews", true)
	}
}
