// Command mattn is [github.com/tare-trace/tare/store/engines/size/none] with
// github.com/mattn/go-sqlite3.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "github.com/mattn/go-sqlite3"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

func main() {
	_, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(nil)
	if _, openErr := sql.Open("none", ""); openErr != nil {
		err = openErr
	}
	fmt.Println(err)
	os.Exit(1)
}
