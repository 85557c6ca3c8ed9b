// Command tare-agent is the agent alone, for nodes that send their spans elsewhere: `tare
// agent` and `tare doctor` without the collector, whose packages take memory as soon as
// they are linked (docs/adr/0014).
package main

import (
	"os"
	"strings"

	"github.com/tare-trace/tare/agent"
	"github.com/tare-trace/tare/doctor"
	"github.com/tare-trace/tare/internal/cli"
)

func main() {
	root := cli.Drains(agent.Command(newCluster))
	root.Use = "tare-agent"
	named := strings.NewReplacer("tare agent", "tare-agent", "tare doctor", "tare-agent doctor")
	root.Long, root.Example = named.Replace(root.Long), named.Replace(root.Example)
	root.Version = agent.Version
	root.AddCommand(doctor.Command())
	os.Exit(cli.Main(root))
}
