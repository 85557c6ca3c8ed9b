package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// goGRPCEnv makes the test binary a service of gRPC: "role,listen,next". The front
// answers HTTP/1 and asks the middle, which asks redis and the leaf. Its port of
// redis is in REDIS; what is special about all of them in GRPC_CASE.
const goGRPCEnv = "TARE_TEST_GO_GRPC"

const (
	numberKey  = "x-request-id"
	grpcNumber = "TARE_REQUEST_HEADERS=" + numberKey
	large      = 200 << 10 // bytes of a message; more than a stream's first window
)

func goGRPC(spec string) {
	f := strings.Split(spec, ",")
	s := &grpcService{kind: os.Getenv("GRPC_CASE"), role: f[0], redis: make(chan *bufio.ReadWriter, 4096), ping: sync.NewCond(new(sync.Mutex))}
	if f[2] != "" {
		var err error
		if s.next, err = grpc.NewClient("passthrough:///"+f[2], s.dial()...); err != nil {
			panic(err)
		}
	}
	if s.role == "front" {
		srv := &http.Server{Addr: f[1], Handler: http.HandlerFunc(s.front), ReadHeaderTimeout: time.Minute}
		panic(srv.ListenAndServe())
	}
	l, err := net.Listen("tcp", f[1])
	if err != nil {
		panic(err)
	}
	panic(s.serve(l))
}

type grpcService struct {
	kind, role string
	next       *grpc.ClientConn
	redis      chan *bufio.ReadWriter
	calls      atomic.Uint64
	ping       *sync.Cond // at each change of pings
	pings      int        // that were answered
}

// silent waits until its connection has carried that many pings of the server's own.
func (s *grpcService) silent(pings int) {
	s.ping.L.Lock()
	defer s.ping.L.Unlock()
	for until := s.pings + pings; s.pings < until; {
		s.ping.Wait()
	}
}

// pingListener hears the answers to such pings.
type pingListener struct {
	net.Listener
	of *grpcService
}

type pingConn struct {
	net.Conn
	of *grpcService
}

func (l pingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return pingConn{c, l.of}, err
}

// pingAnswer is the frame: 8 bytes, PING, ACK, no stream. Only pings of gRPC's keepalive
// have data of zeros.
var pingAnswer = append([]byte{0, 0, 8, 6, 1}, make([]byte, 4+8)...)

func (c pingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.ping.L.Lock()
	c.of.pings += bytes.Count(b[:n], pingAnswer)
	c.of.ping.L.Unlock()
	c.of.ping.Broadcast()
	return n, err
}

func (s *grpcService) dial() []grpc.DialOption {
	o := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	switch s.kind {
	case "retries":
		o = append(o, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
			"initialBackoff": "0.001s", "maxBackoff": "0.002s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	case "waiting":
		o = append(o, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	}
	return o
}

func (s *grpcService) serve(l net.Listener) error {
	var o []grpc.ServerOption
	switch s.kind {
	case "workers":
		o = append(o, grpc.NumStreamWorkers(4))
	case "keepalive": // a second is the least that grpc takes
		o = append(o, grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second}))
		if s.role == "leaf" { // who asks others needs connections that Tare knows
			l = pingListener{l, s}
		}
	case "goaway":
		o = append(o, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 50 * time.Millisecond}))
	}
	server := grpc.NewServer(append(o, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unimplemented, "")
	}))...)
	title := strings.ToUpper(s.role[:1]) + s.role[1:]
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test." + title,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Get", Handler: s.get}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Down", ServerStreams: true, Handler: s.stream},
			{StreamName: "Up", ClientStreams: true, Handler: s.stream},
			{StreamName: "Both", ServerStreams: true, ClientStreams: true, Handler: s.stream},
		},
	}, s)
	return server.Serve(l)
}

// number of a request, for what it asks others.
func withNumber(ctx context.Context) (context.Context, string) {
	md, _ := metadata.FromIncomingContext(ctx)
	n := strings.Join(md.Get(numberKey), "")
	return metadata.AppendToOutgoingContext(ctx, numberKey, n), n
}

func (s *grpcService) get(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's order
	var in wrapperspb.BytesValue
	if err := decode(&in); err != nil {
		return nil, err
	}
	ctx, n := withNumber(ctx)
	number, _ := strconv.Atoi(n)
	if s.role == "leaf" {
		switch {
		case s.kind == "late" && number%4 == 1:
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		case s.kind == "keepalive": // meanwhile both sides are silent but for pings
			s.silent(2)
		case s.kind == "retries" && s.calls.Add(1)%3 == 0:
			return nil, status.Error(codes.Unavailable, "try again")
		}
		return &in, nil
	}
	if err := s.askRedis(n); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	switch s.kind {
	case "streams":
		if err := s.streams(ctx, &in); err != nil {
			return nil, err
		}
	case "late":
		if number%4 == 1 {
			var cancel context.CancelFunc
			if number%8 == 1 {
				ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
			} else {
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(5*time.Millisecond, cancel)
			}
			defer cancel()
		}
	}
	out := new(wrapperspb.BytesValue)
	if err := s.next.Invoke(ctx, "/test.Leaf/Get", &in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// streams asks the leaf by a stream of each kind.
func (s *grpcService) streams(ctx context.Context, in *wrapperspb.BytesValue) error {
	for _, d := range []grpc.StreamDesc{
		{StreamName: "Down", ServerStreams: true}, {StreamName: "Up", ClientStreams: true},
		{StreamName: "Both", ServerStreams: true, ClientStreams: true},
	} {
		stream, err := s.next.NewStream(ctx, &d, "/test.Leaf/"+d.StreamName)
		if err != nil {
			return err
		}
		sends := 1
		if d.ClientStreams {
			sends = 3
		}
		for range sends {
			if err := stream.SendMsg(in); err != nil {
				return err
			}
			if d.ClientStreams && d.ServerStreams { // turns are taken
				if err := stream.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
					return err
				}
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		for err == nil {
			err = stream.RecvMsg(new(wrapperspb.BytesValue))
			if !d.ServerStreams && err == nil {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

func (s *grpcService) stream(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var in wrapperspb.BytesValue
	for {
		switch err := stream.RecvMsg(&in); {
		case errors.Is(err, io.EOF):
			if path.Base(method) == "Up" {
				return stream.SendMsg(&in)
			}
			return nil
		case err != nil:
			return err
		}
		answers := map[string]int{"Down": 3, "Both": 1}[path.Base(method)]
		for range answers {
			if err := stream.SendMsg(&in); err != nil {
				return err
			}
		}
		if path.Base(method) == "Down" {
			return nil
		}
	}
}

func (s *grpcService) askRedis(n string) error {
	var c *bufio.ReadWriter
	select {
	case c = <-s.redis:
	default:
		conn, err := net.Dial("tcp", loopbackOf(os.Getenv("REDIS")))
		if err != nil {
			return err
		}
		c = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	key := "n:" + n
	_, _ = fmt.Fprintf(c, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	_ = c.Flush()
	_, err := c.ReadString('\n')
	s.redis <- c
	return err
}

func loopbackOf(port string) string { return net.JoinHostPort("127.0.0.1", port) }

func (s *grpcService) front(w http.ResponseWriter, r *http.Request) {
	in := &wrapperspb.BytesValue{Value: []byte("hello")}
	if s.kind == "large" {
		in.Value = make([]byte, large)
	}
	number := path.Base(r.URL.Path)
	// A number alone may be too short to be one request's.
	ctx := metadata.AppendToOutgoingContext(r.Context(), numberKey, number, "x-correlation-id", "request-"+number)
	err := s.next.Invoke(ctx, "/test.Middle/Get", in, new(wrapperspb.BytesValue))
	if c := status.Code(err); err != nil && (s.kind != "late" || c != codes.DeadlineExceeded && c != codes.Canceled) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}
