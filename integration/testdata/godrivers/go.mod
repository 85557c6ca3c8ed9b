// Libraries that only a program of the tests has.
module github.com/tare-trace/tare/integration/testdata/godrivers

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/go-sql-driver/mysql v1.10.1
	github.com/lib/pq v1.12.3
	google.golang.org/protobuf v1.36.12
)

require filippo.io/edwards25519 v1.2.0 // indirect
