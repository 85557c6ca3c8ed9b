// Command none is what the others are larger than: a program that decodes spans
// and opens a database by Go's interface to databases, without any.
package main

import (
	"database/sql"
	"fmt"
	"os"

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
