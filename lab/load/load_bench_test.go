package load

import (
	"context"
	"net"
	"testing"
	"time"
)

// answerer is a server that costs as little as one in Go can: what is left is
// the generator's.
func answerer(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nhello world!\n")
				in := make([]byte, 4096)
				for {
					if _, err := c.Read(in); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// BenchmarkRequest runs one loop, for as many
// requests: cpu-ns/op is the CPU time of its thread, the kernel's part and the
// loopback's (which delivers to the server) included. The lag is the open loop's.
func BenchmarkRequest(b *testing.B) {
	for name, c := range map[string]struct {
		rate  float64
		conns int
	}{
		"closed/8": {0, 8}, "closed/100": {0, 100}, "open1000/100": {1000, 100}, "open10000/100": {10000, 100},
	} {
		b.Run(name, func(b *testing.B) {
			opts := Options{Addr: answerer(b), Connections: c.conns, Rate: c.rate, Requests: uint64(b.N), AppendPath: appendPath}
			if err := opts.validate(); err != nil {
				b.Fatal(err)
			}
			addresses, err := resolve(context.Background(), opts.Addr)
			if err != nil {
				b.Fatal(err)
			}
			g := &Generator{opts: opts, schedule: schedule{opts.Rate, opts.Requests}}
			g.end.Store(int64(time.Hour))
			l, err := newLoop(g, addresses, c.conns)
			if err != nil {
				b.Fatal(err)
			}
			g.loops = append(g.loops, l)
			b.ReportAllocs()
			b.ResetTimer()
			g.started = time.Now()
			done := make(chan time.Duration)
			go func() {
				defer close(done)
				l.run()
				done <- l.thread.cpu()
			}()
			cpu := <-done
			b.StopTimer()
			if l.tally.ok != opts.Requests {
				b.Fatalf("%+v", l.tally.errors)
			}
			b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
			if c.rate > 0 {
				b.ReportMetric(float64(l.tally.lag.ValueAtQuantile(50)), "lag-p50-ns")
				b.ReportMetric(float64(l.tally.lag.ValueAtQuantile(99)), "lag-p99-ns")
			}
		})
	}
}

func BenchmarkParseHead(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Fri, 21 Nov 2025 10:00:00 GMT\r\n" +
		"Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nhello world!\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := parseHead(in); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
