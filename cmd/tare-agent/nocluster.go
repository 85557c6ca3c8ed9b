//go:build !kubernetes

package main

import "github.com/tare-trace/tare/agent"

// newCluster is nil: a client of Kubernetes' API makes this program half as large again.
var newCluster agent.NewCluster
