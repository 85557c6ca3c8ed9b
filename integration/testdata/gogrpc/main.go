// Command gogrpc is a service of gRPC that has nothing of net/http's server: for each
// request it asks redis and the next service.
//
//	gogrpc LISTEN NEXT REDIS
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const number = "x-request-id"

func main() {
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	next, err := grpc.NewClient(os.Args[2], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	cache, err := net.Dial("tcp", os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	var turn sync.Mutex
	answer := bufio.NewReader(cache)
	ask := func(n string) error {
		turn.Lock()
		defer turn.Unlock()
		if _, err := fmt.Fprintf(cache, "*2\r\n$3\r\nGET\r\n$%d\r\nn:%s\r\n", 2+len(n), n); err != nil {
			return err
		}
		_, err := answer.ReadString('\n') // nothing is stored
		return err
	}
	get := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's order
		in, out := new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		n := metadata.ValueFromIncomingContext(ctx, number)
		if len(n) != 1 {
			return nil, errors.New("no number")
		}
		if err := ask(n[0]); err != nil {
			return nil, err
		}
		if err := next.Invoke(metadata.AppendToOutgoingContext(ctx, number, n[0]), "/test.Leaf/Get", in, out); err != nil {
			return nil, err
		}
		return out, nil
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Middle", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: get}},
	}, nil)
	log.Fatal(server.Serve(l))
}
