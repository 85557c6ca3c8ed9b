package bench

import (
	"errors"
	"time"

	"github.com/tare-trace/tare/lab/load"
	"github.com/tare-trace/tare/lab/meter"
	"github.com/tare-trace/tare/lab/record"
)

const mib = 1 << 20

// values turns what was read at both ends of the window into metrics.
func (r *run) values(answered load.Result, exported uint64, u meter.Usage) error {
	if answered.OK == 0 {
		return errors.New("no request was answered within the window: is the window too short, or the service dead?")
	}
	rec, v := r.rec, r.rec.Values
	seconds, requests := u.Elapsed.Seconds(), float64(answered.OK)
	rec.Warmup, rec.Window, rec.Answers = r.job.Warmup.Seconds(), seconds, answered.OK
	r.loadValues(answered)

	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / requests }
	service, tracer := u.Groups["service"], u.Groups["tracer"]
	v[record.CPUService], v[record.CoresService] = micros(service.CPU), service.CPU.Seconds()/seconds
	if entry, ok := u.Groups["entry"]; ok {
		v[record.CPUEntry] = micros(entry.CPU)
		v[record.CPUMean] = micros(service.CPU) / float64(len(r.names())-r.chain.Proxies())
	}
	v[record.CPUTracer], v[record.CoresTracer] = micros(tracer.CPU), tracer.CPU.Seconds()/seconds
	v[record.CPUTraced] = v[record.CPUService] + v[record.CPUTracer]
	if proxy, ok := u.Groups["proxy"]; ok {
		v[record.CPUProxy], v[record.CoresProxy] = micros(proxy.CPU), proxy.CPU.Seconds()/seconds
		v[record.MemProxy] = float64(proxy.RSS) / mib
		v[record.CPUTraced] += v[record.CPUProxy]
		if proxy.Vanished > 0 {
			return errors.New("a process of a proxy ended within the window: its CPU time is lost")
		}
	}
	if spans := r.spansOfRequest(); spans >= 0.01 {
		v[record.CPUTracerSpan] = v[record.CPUTracer] / spans
	}
	v[record.CPUMachine], v[record.CoresMachine] = micros(u.Machine.Busy), u.Machine.Cores()
	v[record.CPULab] = micros(u.Lab)
	// What another program sends is not in the laboratory's CPU time.
	if answered.CPU > 0 {
		v[record.CPUGenerator] = micros(answered.CPU)
	}
	v[record.CPUSink] = micros(max(0, u.Lab-answered.CPU-u.Meter))
	v[record.CPUAgent] = micros(u.Groups["agent"].CPU) // 0: there is none
	if c, ok := u.Groups["collector"]; ok {
		v[record.CPUCollector], v[record.CoresCollector] = micros(c.CPU), c.CPU.Seconds()/seconds
		v[record.MemCollector] = float64(c.RSS) / mib
		if c.HasWritten {
			v[record.DiskCollector] = float64(c.Written) / requests
		}
	}
	v[record.CoresMeter] = u.Meter.Seconds() / seconds
	v[record.Stolen] = u.Machine.Stolen.Seconds() / seconds
	v[record.MemService], v[record.MemServicePeak] = float64(service.RSS)/mib, float64(service.Peak)/mib
	v[record.MemTracer], v[record.MemTracerPeak] = float64(tracer.RSS)/mib, float64(tracer.Peak)/mib
	if r.stage.Network != nil {
		v[record.NetOut] = float64(u.OutBytes) / requests
		v[record.NetWithin] = float64(u.LoopbackBytes) / requests
		v[record.NetOutRate] = float64(u.OutBytes) / 1e6 / seconds
		v[record.NetAllRate] = float64(u.OutBytes+u.LoopbackBytes) / 1e3 / seconds
	}
	v[record.NetExport] = float64(exported) / requests
	if service.Vanished > 0 {
		return errors.New("a process of the service ended within the window: its CPU time is lost")
	}
	return nil
}

// spansOfRequest is how many an agent makes of a request on average, 0 if there is no agent or
// it is not known.
func (r *run) spansOfRequest() float64 {
	t := r.job.Variant.Tracer
	if r.chain.Truth == nil || !r.tracer.Facts(t).Programs || t.Neighbour {
		return 0
	}
	rate := 1.0
	if len(t.Rates) > 0 {
		rate = r.job.Variant.Rate
	}
	return rate * float64(r.chain.Truth(0).Spans())
}

// loadValues are what the load generator knows.
func (r *run) loadValues(answered load.Result) {
	v := r.rec.Values
	r.rec.Limits = answered.Limits
	v[record.Throughput] = float64(answered.OK) / answered.Elapsed.Seconds()
	v[record.Offered] = float64(answered.Offered) / answered.Elapsed.Seconds()
	v[record.ErrorShare] = float64(answered.Failed) / float64(answered.OK+answered.Failed)
	v[record.SuccessShare] = float64(answered.OK) / float64(answered.OK+answered.Failed)
	for key, q := range map[string]float64{record.P50: 0.5, record.P95: 0.95, record.P99: 0.99, record.Max: 1} {
		if d, ok := answered.Quantile(q); ok {
			v[key] = float64(d) / float64(time.Millisecond)
		}
	}
	if h := answered.SinceSent; h != nil && h.TotalCount() > 0 && r.job.Load.Rate > 0 {
		for key, q := range map[string]float64{record.SentP50: 50, record.SentP95: 95, record.SentP99: 99} {
			v[key] = float64(h.ValueAtQuantile(q)) / float64(time.Millisecond)
		}
	}
	if answered.Lag != nil && answered.Lag.TotalCount() > 0 {
		v[record.GeneratorLagP99] = float64(answered.Lag.ValueAtQuantile(99)) / float64(time.Millisecond)
	}
}
