package agent

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tare-trace/tare/agent/config"
)

// Every setting is taken over while the agent runs, or named as one that is not.
func TestAtRestartNamesAllSettings(t *testing.T) {
	live := []string{"File", "Services", "ServiceName", "Linking", "Correlation", "Resource", "Trust", "Sampler", "SamplerArg", "Budget", "Replace"}
	old := config.Default()
	assert.Empty(t, AtRestart(&old, &old))
	of := reflect.TypeFor[config.Config]()
	for i := range of.NumField() {
		field := of.Field(i)
		if !field.IsExported() {
			continue
		}
		cfg := config.Default()
		v := reflect.ValueOf(&cfg).Elem().Field(i)
		if v.Kind() == reflect.Struct {
			v = v.Field(0)
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "other")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			assert.Contains(t, live, field.Name, "the test cannot change it")
		}
		switch field.Name {
		case "Kubernetes":
			cfg.Kubernetes = config.KubernetesOn
		case "Sampler":
			cfg.Sampler = "parentbased_traceidratio" // "parentbased_always_on" before
		}
		if names := AtRestart(&old, &cfg); slices.Contains(live, field.Name) != (len(names) == 0) {
			t.Errorf("%s is named as %v", field.Name, names)
		}
	}
}
