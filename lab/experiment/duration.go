package experiment

import (
	"encoding/json"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-trace/tare/internal/duration"
)

// Duration is written as in Go: 500ms, 3s, 10m.
type Duration time.Duration

// Std is the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes it as it is read.
func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalYAML reads a scalar with a unit.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := duration.Parse(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is no duration: write it with a unit, such as 500ms, 3s or 10m", n.Line, n.Value)
	}
	if v < 0 {
		return fmt.Errorf("line %d: the duration %s is negative", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := duration.Parse(s)
	*d = Duration(v)
	return err
}
