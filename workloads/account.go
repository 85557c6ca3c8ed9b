package workloads

import "github.com/tare-trace/tare/workloads/planted"

// accountPlan: the service of thesisPlan under requests into which secrets are planted, each
// of them unique (package planted). It records all of them, and more that it knows itself.
var accountPlan = plan{
	paths:    func(n uint64) string { return string(planted.AppendPath(nil, n)) },
	fixed:    true,
	planted:  true,
	services: thesisPlan.services,
	reserved: thesisPlan.reserved,
	specs:    thesisPlan.specs,
}
