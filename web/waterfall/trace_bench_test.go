package waterfall

import "testing"

func BenchmarkAnalyse(b *testing.B) {
	for name, wide := range map[string]bool{"deep": false, "wide": true} {
		b.Run(name+"/spans=100000", func(b *testing.B) {
			td := chain(100_000, wide)
			b.ReportAllocs()
			for b.Loop() {
				Analyse(td)
			}
		})
	}
}
