package runtime

import (
	"strings"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/tier"
)

var _ = register(Runtime{
	Name:    "Ruby",
	Detect:  isRuby,
	Linking: config.Auto,
	Why:     "Ruby: as threads, until something speaks against it; who takes a request over from Puma's reactor says so",
	Demand:  tier.Handovers,
})

// isRuby tells CRuby's executables (ruby, ruby3.1), and what embeds it (Passenger, uwsgi).
func isRuby(p *Process) bool {
	if strings.TrimRight(p.Name(), ".0123456789") == "ruby" {
		return true
	}
	for _, library := range p.libraries() {
		if strings.HasPrefix(library, "libruby-") || strings.HasPrefix(library, "libruby.so") {
			return true
		}
	}
	return false
}
