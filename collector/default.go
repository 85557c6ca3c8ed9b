package collector

import _ "embed" // default.yaml

// DefaultConfig is the YAML that runs if no configuration is named; `tare collector
// print-config` prints it.
//
//go:embed default.yaml
var DefaultConfig string
