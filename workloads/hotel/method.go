package main

import (
	"context"
	"path"

	"google.golang.org/grpc"

	"github.com/tare-trace/tare/workloads/hotel/hotelpb"
)

// method is the full name of a gRPC method of hotel.proto, with the types of its
// messages. Code from protoc-gen-go-grpc would do the same in 800 lines.
type method[In, Out any] string

const (
	searchNearby       method[hotelpb.Place, hotelpb.Hotels]    = "/hotel.Search/Nearby"
	geoNearby          method[hotelpb.Place, hotelpb.Hotels]    = "/hotel.Geo/Nearby"
	getRates           method[hotelpb.Hotels, hotelpb.Rates]    = "/hotel.Rate/GetRates"
	getRecommendations method[hotelpb.Place, hotelpb.Hotels]    = "/hotel.Recommendation/GetRecommendations"
	getProfiles        method[hotelpb.Hotels, hotelpb.Profiles] = "/hotel.Profile/GetProfiles"
	checkAvailability  method[hotelpb.Stay, hotelpb.Hotels]     = "/hotel.Reserve/CheckAvailability"
	makeReservation    method[hotelpb.Stay, hotelpb.Hotels]     = "/hotel.Reserve/MakeReservation"
	checkUser          method[hotelpb.Login, hotelpb.Checked]   = "/hotel.User/CheckUser"
)

// call sends in and waits for the answer.
func (m method[In, Out]) call(ctx context.Context, conn *grpc.ClientConn, in *In) (*Out, error) {
	out := new(Out)
	if err := conn.Invoke(ctx, string(m), in, out, grpc.StaticMethod()); err != nil {
		return nil, err
	}
	return out, nil
}

// by is the method as a server has it, answered by answer.
func (m method[In, Out]) by(answer func(context.Context, *In) (*Out, error)) grpc.MethodDesc {
	handle := func(ctx context.Context, in any) (any, error) {
		return answer(ctx, in.(*In)) //nolint:errcheck // the type that is decoded below
	}
	info := &grpc.UnaryServerInfo{FullMethod: string(m)}
	return grpc.MethodDesc{
		MethodName: path.Base(string(m)),
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order of arguments
			in := new(In)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, info, handle) // each server of tare-hotel has one
		},
	}
}

// register adds a service of hotel.proto to a server.
func register(s *grpc.Server, service string, methods ...grpc.MethodDesc) {
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, Methods: methods, Metadata: "hotel.proto"}, nil)
}
