// Command modernc is [github.com/tare-trace/tare/store/engines/size/none] with
// modernc.org/sqlite.
package main

import (
	"database/sql"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace"
	_ "modernc.org/sqlite"
)

func main() {
	_, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(nil)
	if _, openErr := sql.Open("none", ""); openErr != nil {
		err = openErr
	}
	fmt.Println(err)
	os.Exit(1)
}
