//go:build !linux

package adaptive

import "time"

const cpuKnown = false

func cpuTime() (time.Duration, bool) { return 0, false }
