//go:build kubernetes

package main

import (
	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/agent/cluster/kubernetes"
)

// newCluster opens a cluster: the agent of Tare's image is built with the tag
// "kubernetes" (docs/adr/0036).
var newCluster agent.NewCluster = kubernetes.Open
