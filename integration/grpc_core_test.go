package integration

import (
	"bufio"
	"io"
	"maps"
	"os/exec"
	"testing"

	"github.com/tare-trace/tare/internal/testkit"
	"github.com/tare-trace/tare/span"
)

// rpcClient asks testdata/rpc.py's server in rounds, on one connection.
type rpcClient struct {
	t     *testing.T
	begin io.Writer
	lines *bufio.Scanner
}

// Python of the distribution, and its package of gRPC.
const (
	rpcPython  = "/usr/bin/python3"
	rpcPackage = "/usr/lib/python3/dist-packages/grpc"
)

func newRPCClient(t *testing.T, port, requests, threads int) *rpcClient {
	t.Helper()
	cmd := exec.Command(rpcPython, testdata("rpc.py"), "ask", itoa(port), itoa(requests), itoa(threads))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client of gRPC: %v", err)
		}
	})
	return &rpcClient{t, in, bufio.NewScanner(out)}
}

func (c *rpcClient) round() {
	c.t.Helper()
	if _, err := io.WriteString(c.begin, "\n"); err != nil {
		c.t.Fatal(err)
	}
	if !c.lines.Scan() {
		c.t.Fatalf("the client of gRPC has ended: %v", c.lines.Err())
	}
}

// gRPC by its C core, as in Python, PHP and Ruby: headers of up to 2 KiB, and receives into several buffers. Each request
// has a span that says which method was called and how it ended. A connection that is older than the agent refers to
// names that nobody has seen: its requests have spans, too.
func TestGRPCCore(t *testing.T) {
	t.Parallel()
	need(t, rpcPackage)
	const threads = 8
	requests := few(1500) / 3 * 3
	for name, older := range map[string]bool{"new connection": false, "older connection": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := newStack(t), newSink(t)
			port := testkit.FreePort(t)
			c.ready(c.service("echo", "", nil, rpcPython, testdata("rpc.py"), "serve", itoa(port)), loopback(port))
			client := newRPCClient(t, port, requests, threads)
			if older {
				client.round()
			}
			a := trace(t, s, nil, "--port", "echo="+itoa(port))
			client.round()
			m := a.settle()
			named, got := map[string]int{}, int64(0)
			for _, sp := range s.all() {
				named[sp.Name]++
				status, _ := sp.Attr("rpc.response.status_code")
				received, _ := sp.Attr("tare.bytes.received")
				failed := sp.Name == "tare.Echo/Fail"
				switch {
				case sp.Kind != span.Server || (sp.Status == span.Error) != failed:
					t.Errorf("is not a request, or its status is wrong: %s", describe(&sp))
				case sp.Name != "http2" && status.Str != map[bool]string{false: "OK", true: "INTERNAL"}[failed]:
					t.Errorf("the status is %q: %s", status.Str, describe(&sp))
				}
				got += received.Num
			}
			sent := int64(0)
			for n := range requests {
				sent += int64(n * 101 % 3000)
			}
			if got < sent {
				t.Errorf("%d bytes were received, of %d in bodies alone", got, sent)
			}
			want := map[string]int{"tare.Echo/Say": requests / 3, "tare.Echo/Watch": requests / 3, "tare.Echo/Fail": requests / 3}
			if older {
				want = map[string]int{"http2": requests}
			}
			if !maps.Equal(named, want) || m.lostAll() > 0 {
				t.Errorf("%d requests: %v, want %v\n%v", requests, named, want, m)
			}
		})
	}
}
