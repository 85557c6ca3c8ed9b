package golang

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tare-trace/tare/agent/runtime/reading"
)

// The first sight of a large executable: this repository's own.
func BenchmarkFirstSight(b *testing.B) {
	const path = "../../../bin/tare"
	f, err := os.Open(path)
	if err != nil {
		b.Skip("make build makes the executable to be read: ", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		if _, err := ReadFile(f, reading.New()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/1e3, "CPU-ms/op")
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}

// cpu is the time that the test's process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Another process of an executable that is known.
func BenchmarkNextProcess(b *testing.B) {
	var r Reader
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		if _, err := r.Read("/proc/self", reading.New()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/1e3, "CPU-ms/op")
}

// Another container's copy of an executable that is known: by its build id.
func BenchmarkNextFile(b *testing.B) {
	var r Reader
	if _, err := r.Read("/proc/self", reading.New()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		clear(r.files)
		if _, err := r.Read("/proc/self", reading.New()); err != nil {
			b.Fatal(err)
		}
	}
}
