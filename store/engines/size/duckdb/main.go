// Command duckdb is [github.com/tare-trace/tare/store/engines/size/none] with
// github.com/duckdb/duckdb-go/v2.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "github.com/duckdb/duckdb-go/v2"
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
