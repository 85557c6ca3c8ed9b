// Command tare is [github.com/tare-trace/tare/store/engines/size/none] with
// Tare's store.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/store"
)

func main() {
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(nil)
	if _, openErr := sql.Open("none", ""); openErr != nil {
		err = openErr
	}
	fmt.Println(err)
	s, err := store.Open(store.Options{Dir: os.Args[0] + ".store"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// The linker leaves out what is not reached.
	ctx, q := context.Background(), store.Query{}
	fmt.Println(s.Write(ctx, td), s.Stats(), s.Close())
	fmt.Println(s.Search(ctx, q))
	fmt.Println(s.Latencies(ctx, q.Start, q.End, "", true))
	fmt.Println(s.Map(ctx, q.Start, q.End))
	fmt.Println(s.Trace(ctx, [16]byte{}))
}
