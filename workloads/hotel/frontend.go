package main

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc"

	"github.com/tare-trace/tare/workloads/hotel/hotelpb"
	"github.com/tare-trace/tare/workloads/internal/hotel"
	"github.com/tare-trace/tare/workloads/internal/service"
)

// frontend is what clients ask, by HTTP.
type frontend struct {
	node                                           *node
	search, recommendation, profile, reserve, user *grpc.ClientConn
}

func (n *node) frontend(ctx context.Context) error {
	f := frontend{node: n}
	for key, conn := range map[string]**grpc.ClientConn{
		"SEARCH": &f.search, "RECOMMENDATION": &f.recommendation, "PROFILE": &f.profile, "RESERVE": &f.reserve, "USER": &f.user,
	} {
		var err error
		if *conn, err = n.dial(ctx, key); err != nil {
			return err
		}
	}
	l, err := service.Listen(n.env)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for kind, answer := range map[hotel.Kind]func(context.Context, uint64) (any, error){
		hotel.Search: f.hotels, hotel.Recommend: f.recommendations, hotel.User: f.login, hotel.Reserve: f.reservation,
	} {
		pattern := "GET " + hotel.Paths[kind] + "{number}"
		mux.Handle(pattern, n.tracing.Handler(f.handler(answer), pattern))
	}
	reg := service.NewRegistry()
	n.tracing.Register(reg)
	service.Pages(mux, reg, func() map[string]any {
		c := n.tracing.Config()
		c["service"], c["listen"], c["delay"] = n.role, l.Addr().String(), n.env.String("DELAY", "")
		return c
	})
	return service.Serve(ctx, l, mux, n.tracing.Shutdown)
}

func (f frontend) handler(answer func(context.Context, uint64) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
		if err != nil {
			service.WriteError(w, http.StatusNotFound, "the path must end with the number of the request")
			return
		}
		f.node.wait(number)
		body, err := answer(withNumber(r.Context(), number), number)
		if err != nil {
			service.WriteError(w, http.StatusBadGateway, err.Error())
			return
		}
		service.WriteJSON(w, http.StatusOK, body)
	})
}

func place(number uint64) *hotelpb.Place {
	latitude, longitude := hotel.Spot(number)
	return &hotelpb.Place{City: hotel.Cities[hotel.CityOf(number)], Latitude: latitude, Longitude: longitude}
}

func stay(number uint64, h *hotelpb.Hotels) *hotelpb.Stay {
	name, _ := hotel.UserOf(number)
	return &hotelpb.Stay{Hotels: h, User: name, Day: int32(number%365) + 1, Nights: int32(number%7) + 1} //nolint:gosec // small
}

// hotels are near, have a price and rooms, and are described.
func (f frontend) hotels(ctx context.Context, number uint64) (any, error) {
	near, err := searchNearby.call(ctx, f.search, place(number))
	if err != nil {
		return nil, err
	}
	free, err := checkAvailability.call(ctx, f.reserve, stay(number, near))
	if err != nil {
		return nil, err
	}
	return getProfiles.call(ctx, f.profile, free)
}

func (f frontend) recommendations(ctx context.Context, number uint64) (any, error) {
	found, err := getRecommendations.call(ctx, f.recommendation, place(number))
	if err != nil {
		return nil, err
	}
	return getProfiles.call(ctx, f.profile, found)
}

func (f frontend) login(ctx context.Context, number uint64) (any, error) {
	name, password := hotel.UserOf(number)
	return checkUser.call(ctx, f.user, &hotelpb.Login{User: name, Password: password})
}

func (f frontend) reservation(ctx context.Context, number uint64) (any, error) {
	name, password := hotel.UserOf(number)
	if _, err := checkUser.call(ctx, f.user, &hotelpb.Login{User: name, Password: password}); err != nil {
		return nil, err
	}
	city := hotel.CityOf(number)
	one := int32(city*hotel.HotelsOfACity) + int32(number%hotel.HotelsOfACity) //nolint:gosec // below 100
	return makeReservation.call(ctx, f.reserve, stay(number, &hotelpb.Hotels{City: hotel.Cities[city], Ids: []int32{one}}))
}
