package collector

import _ "embed" // default.yaml

// DefaultConfig is what runs where no configuration is named, as YAML:
// `tare collector print-config` prints it.
//
//go:embed default.yaml
var DefaultConfig string
