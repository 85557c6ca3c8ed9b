package main

import "github.com/tare-trace/tare/lab/stats"

// demoResult is what documents show of a file that `tare demo --json` writes.
type demoResult struct {
	Chain       string
	Sample      float64
	Concurrency int
	Rounds      int
	Machine     struct {
		CPUs         int
		Kernel, Arch string
	}
	Requests, Failed, Sampled             uint64
	Complete, Incomplete, Orphaned, Wrong int
	RPS                                   float64
	CPU                                   float64 `json:"cpu_us_per_request"`
	Baseline                              struct {
		RPS float64
		CPU float64 `json:"cpu_us_per_request"`
	}
	Ratio, Control struct{ RPS, CPU stats.Ratio }
	Agent          struct {
		Cores   float64 `json:"cpu_cores"`
		RSS     float64 `json:"rss_mib"`
		PeakRSS float64 `json:"peak_rss_mib"`
		Memory  []struct {
			Requests uint64
			RSS      float64 `json:"rss_mib"`
		}
	}
	Programs []struct {
		Name     string
		Runs     uint64
		NsPerRun float64 `json:"ns_per_run"`
	}
	Warnings []string
}
