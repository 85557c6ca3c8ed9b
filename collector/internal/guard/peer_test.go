package guard

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Uses a real server of grpc-go, because its messages may change with its version.
func TestRefusedConnectionIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	first, firstLogs := observer.New(zapcore.InfoLevel)
	zap.New(first, LogPeers())
	zap.New(core, LogPeers()) // the latest gets it

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13})))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var refusals []observer.LoggedEntry
	for wait := time.Now().Add(20 * time.Second); len(refusals) == 0 && time.Now().Before(wait); time.Sleep(5 * time.Millisecond) {
		refusals = logs.FilterMessage("connection refused").All()
	}
	if len(refusals) != 1 || refusals[0].Level != zapcore.WarnLevel {
		t.Fatalf("want one warning, got %v of %v", refusals, logs.All())
	}
	if text := refusals[0].ContextMap()["error"].(string); !strings.Contains(text, conn.LocalAddr().String()) {
		t.Errorf("%q does not say from where: %v", text, conn.LocalAddr())
	}
	if logs.Len() != 1 || firstLogs.Len() != 0 {
		t.Errorf("other lines: %v, %v", logs.All(), firstLogs.All())
	}
}
