package adaptive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const descriptionName = "AdaptiveSampler"

// Description implements [sdktrace.Sampler]: the configuration that is in
// force now, in the SDK's style, as [ParseDescription] reads it.
//
//	AdaptiveSampler{base:0.05,min:0.01,max:1,errorBoost:3,errorShare:0,latencyThreshold:1s,latencyBoost:2,latencyTrigger:any,interval:30s,tracesPerSecond:0,cpuCores:0,p99:0s,parent:follow,routes:0,rules:0}
func (s *Sampler) Description() string {
	parent := "ignore"
	if s.follow {
		parent = "follow"
	}
	return fmt.Sprintf("%s{%s,parent:%s,routes:%d,rules:%d}", descriptionName, describe(s.Config()), parent, s.maxRoutes, s.rules.Len())
}

func describe(c Config) string {
	var b strings.Builder
	for i, f := range c.fields() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.name + ":" + f.get())
	}
	return b.String()
}

// field is a value of Config in a description.
type field struct {
	name string
	get  func() string
	set  func(string) error
}

func (c *Config) fields() []field {
	number := func(name string, v *float64) field {
		return field{name,
			func() string { return strconv.FormatFloat(*v, 'g', -1, 64) },
			func(text string) (err error) { *v, err = strconv.ParseFloat(text, 64); return err },
		}
	}
	span := func(name string, v *time.Duration) field {
		return field{name,
			v.String,
			func(text string) (err error) { *v, err = time.ParseDuration(text); return err },
		}
	}
	return []field{
		number("base", &c.BaseRate), number("min", &c.MinRate), number("max", &c.MaxRate),
		number("errorBoost", &c.ErrorBoost), number("errorShare", &c.ErrorShare),
		span("latencyThreshold", &c.LatencyThreshold), number("latencyBoost", &c.LatencyBoost),
		{
			"latencyTrigger",
			func() string { return string(c.LatencyTrigger) },
			func(text string) error { c.LatencyTrigger = Trigger(text); return nil },
		},
		span("interval", &c.UpdateInterval),
		number("tracesPerSecond", &c.Budget.TracesPerSecond), number("cpuCores", &c.Budget.CPUCores), span("p99", &c.Budget.P99),
	}
}

// ParseDescription returns the configuration in a sampler's Description, so that
// the settings of a running service can be read back. All fields of Config have to
// be there; others are ignored.
func ParseDescription(text string) (Config, error) {
	inner, ok := strings.CutPrefix(text, descriptionName+"{")
	if inner, ok = cutSuffix(inner, "}", ok); !ok {
		return Config{}, errors.New("adaptive: description: want " + descriptionName + "{...}")
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(inner, ",") {
		name, value, ok := strings.Cut(pair, ":")
		if _, twice := values[name]; !ok || twice {
			return Config{}, fmt.Errorf("adaptive: description: %q: want name:value, each name once", pair)
		}
		values[name] = value
	}
	var c Config
	for _, f := range c.fields() {
		value, ok := values[f.name]
		if !ok {
			return Config{}, fmt.Errorf("adaptive: description: %s is not there", f.name)
		}
		if err := f.set(value); err != nil {
			return Config{}, fmt.Errorf("adaptive: description: %s: %w", f.name, err)
		}
	}
	return c, c.Validate()
}

func cutSuffix(s, suffix string, before bool) (string, bool) {
	s, ok := strings.CutSuffix(s, suffix)
	return s, ok && before
}
