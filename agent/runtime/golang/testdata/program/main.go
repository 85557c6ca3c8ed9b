// The program under test: servers and clients of each kind in one process. At
// each place of interest it prints what it knows of itself as JSON, and waits for
// a line of its input, so that a test can look at its memory meanwhile. It
// compiles with Go 1.21 and the libraries of then.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tare-trace/tare/agent/runtime/golang/testdata/program/stack"
)

var cgo bool

// event is what the program knows at one place.
type event struct {
	At       string
	High     uint64 // end of the goroutine's stack
	Frame    uint64 // frame pointer
	Goid     uint64
	Context  uint64 // data word of the context that is to be found
	Stream   uint64 // address of grpc's stream
	Version  string
	Cgo      bool
	Contexts map[string][2]uint64
}

var (
	turn  sync.Mutex
	input = bufio.NewReader(os.Stdin)
)

func tell(e event) {
	turn.Lock()
	defer turn.Unlock()
	e.High, e.Frame, e.Goid = uint64(stack.High()), uint64(stack.Frame()), goid()
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		panic(err)
	}
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

func goid() uint64 {
	var b [64]byte
	id, _ := strconv.ParseUint(strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1], 10, 64)
	return id
}

// words of an interface.
func words(c context.Context) [2]uint64 { return *(*[2]uint64)(unsafe.Pointer(&c)) }

type key struct{}

// wanted is the context of the request that a connection is about to write.
var (
	wantedMu sync.Mutex
	wanted   = map[string]uint64{}
)

// message is what the gRPC client sends.
const message = "a message of some length, so that the write is not a small one"

// writer is the function from which requests are written.
var writer = map[string]string{
	"http1 client": ").writeLoop(", "http2 client": ").doRequest(", "x/net/http2 client": ").doRequest(", "grpc client": ").run(",
}

func want(at string, c context.Context) {
	wantedMu.Lock()
	defer wantedMu.Unlock()
	wanted[at] = words(c)[1]
}

// conn tells of the first write after a context is wanted.
type conn struct {
	net.Conn
	at string
}

func (c *conn) Write(b []byte) (int, error) {
	var trace [1 << 14]byte
	wantedMu.Lock()
	w := wanted[c.at]
	// Handshakes and answers to the peer's frames come from elsewhere, but with
	// gRPC from the same function.
	if w != 0 && strings.Contains(string(trace[:runtime.Stack(trace[:], false)]), writer[c.at]) && (c.at != "grpc client" || bytes.Contains(b, []byte(message))) {
		delete(wanted, c.at)
	} else {
		w = 0
	}
	wantedMu.Unlock()
	if w != 0 {
		tell(event{At: c.at, Context: w})
	}
	return c.Conn.Write(b)
}

// Contexts of applications.
type (
	wrapped struct{ context.Context }
	deep    struct{ *inner }
	inner   struct {
		_ [3]int
		context.Context
	}
	ownValue struct {
		name string
		wrapped
	}
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type codec struct{}

func (codec) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (codec) Unmarshal(d []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), d...)
	return nil
}
func (codec) Name() string { return "raw" }

func dialer(at string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{c, at}, nil
	}
}

func get(client *http.Client, at, url string) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, at))
	defer cancel()
	// Twice: the first write of a connection has its handshake.
	for i := 0; i < 2; i++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		must(err)
		if i == 1 {
			want(at, ctx)
		}
		s, err := client.Do(r)
		must(err)
		_, _ = io.Copy(io.Discard, s.Body)
		must(s.Body.Close())
	}
}

func handler(at string) http.Handler {
	n := 0
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n++; n == 2 {
			tell(event{At: at, Context: words(r.Context())[1]})
		}
	})
}

func hold(m map[string][2]uint64, c context.Context) {
	m[fmt.Sprintf("%T", c)] = words(c)
}

func main() {
	e := event{At: "start", Version: runtime.Version(), Cgo: cgo, Contexts: map[string][2]uint64{}}
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer, cancel2 := context.WithTimeout(base, 1<<60)
	defer cancel2()
	hold(e.Contexts, base)
	hold(e.Contexts, timer)
	hold(e.Contexts, context.WithValue(base, key{}, 1))
	hold(e.Contexts, context.WithoutCancel(base))
	hold(e.Contexts, wrapped{base})
	hold(e.Contexts, &wrapped{base})
	hold(e.Contexts, deep{&inner{Context: base}})
	hold(e.Contexts, &ownValue{"x", wrapped{base}})
	req, _ := http.NewRequestWithContext(base, http.MethodGet, "http://x/", nil)
	hold(e.Contexts, &framework{Request: req})
	tell(e)

	h1 := httptest.NewServer(handler("http1 server"))
	get(&http.Client{Transport: &http.Transport{DialContext: dialer("http1 client")}}, "http1 client", h1.URL)

	h2 := httptest.NewUnstartedServer(handler("http2 server"))
	h2.EnableHTTP2 = true
	h2.StartTLS()
	get(&http.Client{Transport: &http.Transport{DialContext: dialer("http2 client"), ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, "http2 client", h2.URL)

	xnet := httptest.NewServer(h2c.NewHandler(handler("x/net/http2 server"), &http2.Server{}))
	get(&http.Client{Transport: &http2.Transport{AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return dialer("x/net/http2 client")(ctx, network, addr)
		}}}, "x/net/http2 client", xnet.URL)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s := grpc.NewServer(grpc.ForceServerCodec(codec{}))
	calls := 0
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "s", HandlerType: (*interface{})(nil), Methods: []grpc.MethodDesc{{MethodName: "M",
		Handler: func(_ interface{}, ctx context.Context, dec func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			var in []byte
			must(dec(&in))
			if calls++; calls == 2 {
				st := grpc.ServerTransportStreamFromContext(ctx)
				tell(event{At: "grpc server", Stream: (*(*[2]uint64)(unsafe.Pointer(&st)))[1]})
			}
			return &in, nil
		}}}}, struct{}{})
	go func() { must(s.Serve(l)) }()
	gc, err := grpc.DialContext(base, l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer("grpc client")(ctx, "tcp", addr)
		}))
	must(err)
	for i := 0; i < 2; i++ {
		ctx := context.WithValue(base, key{}, "grpc")
		if i == 1 {
			want("grpc client", ctx)
		}
		in, out := []byte(message), []byte(nil)
		must(gc.Invoke(ctx, "/s/M", &in, &out))
	}

	_ = redis.NewClient(&redis.Options{Addr: h1.Listener.Addr().String()}).Ping(timer).Err()
	tell(event{At: "end"})
}
