package workloads

import (
	"maps"
	"slices"
	"strings"
)

// environ adds the layers to base, each over those before it.
func environ(base []string, layers ...map[string]string) []string {
	all := map[string]string{}
	for _, kv := range base {
		k, v, _ := strings.Cut(kv, "=")
		all[k] = v
	}
	for _, l := range layers {
		maps.Copy(all, l)
	}
	env := make([]string, 0, len(all))
	for _, k := range sortedKeys(all) {
		env = append(env, k+"="+all[k])
	}
	return env
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
