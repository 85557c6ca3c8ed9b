package main

import (
	"cmp"
	"context"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/workloads/hotel/hotelpb"
	"github.com/tare-trace/tare/workloads/internal/hotel"
)

// registerGeo serves what is in memory.
func registerGeo(_ context.Context, _ *node, s *grpc.Server) error {
	register(s, "hotel.Geo", geoNearby.by(nearest))
	return nil
}

// nearest finds the hotels with the least distance.
func nearest(_ context.Context, p *hotelpb.Place) (*hotelpb.Hotels, error) {
	type found struct {
		id int32
		km float64
	}
	all := make([]found, 0, len(hotel.Cities)*hotel.HotelsOfACity)
	for id := range cap(all) {
		latitude, longitude := hotel.Where(id)
		all = append(all, found{int32(id), distance(p.GetLatitude(), p.GetLongitude(), latitude, longitude)}) //nolint:gosec // below 100
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.km, b.km) })
	hotels := &hotelpb.Hotels{City: p.GetCity()}
	for _, f := range all[:hotel.Near] {
		hotels.Ids = append(hotels.Ids, f.id)
	}
	return hotels, nil
}

// distance in km on a sphere, by the haversine formula; arguments in degrees.
func distance(lat1, lon1, lat2, lon2 float64) float64 {
	const earth, degree = 6371, math.Pi / 180
	a, b := math.Sin((lat2-lat1)*degree/2), math.Sin((lon2-lon1)*degree/2)
	return 2 * earth * math.Asin(math.Sqrt(a*a+math.Cos(lat1*degree)*math.Cos(lat2*degree)*b*b))
}

// search asks geo, then rate.
type search struct{ geo, rate *grpc.ClientConn }

func registerSearch(ctx context.Context, n *node, s *grpc.Server) error {
	geo, err := n.dial(ctx, "GEO")
	if err != nil {
		return err
	}
	rate, err := n.dial(ctx, "RATE")
	register(s, "hotel.Search", searchNearby.by(search{geo, rate}.nearby))
	return err
}

// nearby finds hotels that have a price, the cheapest first.
func (s search) nearby(ctx context.Context, p *hotelpb.Place) (*hotelpb.Hotels, error) {
	near, err := geoNearby.call(ctx, s.geo, p)
	if err != nil {
		return nil, err
	}
	rates, err := getRates.call(ctx, s.rate, near)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rates.Prices, func(a, b *hotelpb.Price) int { return cmp.Compare(a.Cents, b.Cents) })
	found := &hotelpb.Hotels{City: p.GetCity()}
	for _, r := range rates.GetPrices() {
		found.Ids = append(found.Ids, r.GetId())
	}
	return found, nil
}

type rate struct {
	cache cache
	rates table[price]
}

type price struct{ ID, Cents int32 }

func registerRate(ctx context.Context, n *node, s *grpc.Server) error {
	c, db, err := n.stores(ctx)
	if err != nil {
		return err
	}
	rates, err := newTable[price](ctx, db, hotel.SelectRates)
	register(s, "hotel.Rate", getRates.by(rate{c, rates}.get))
	return err
}

// stores are those of services with both.
func (n *node) stores(ctx context.Context) (cache, database, error) {
	c, err := n.openCache()
	if err != nil {
		return cache{}, database{}, err
	}
	db, err := n.openDatabase(ctx)
	return c, db, err
}

// get returns the prices of hotels.
func (r rate) get(ctx context.Context, h *hotelpb.Hotels) (*hotelpb.Rates, error) {
	if _, err := r.cache.get(ctx, hotel.RateKey); err != nil {
		return nil, err
	}
	all, err := r.rates.of(ctx, h.GetCity())
	if err != nil {
		return nil, err
	}
	out := &hotelpb.Rates{}
	for _, p := range all {
		if slices.Contains(h.GetIds(), p.ID) {
			out.Prices = append(out.Prices, &hotelpb.Price{Id: p.ID, Cents: p.Cents})
		}
	}
	return out, nil
}

type profile struct {
	cache    cache
	profiles table[description]
}

type description struct {
	ID                int32
	Name, Phone, Text string
}

func registerProfile(ctx context.Context, n *node, s *grpc.Server) error {
	c, db, err := n.stores(ctx)
	if err != nil {
		return err
	}
	profiles, err := newTable[description](ctx, db, hotel.SelectProfiles)
	register(s, "hotel.Profile", getProfiles.by(profile{c, profiles}.get))
	return err
}

// get describes hotels, in the order in which they are asked for.
func (p profile) get(ctx context.Context, h *hotelpb.Hotels) (*hotelpb.Profiles, error) {
	if _, err := p.cache.get(ctx, hotel.ProfileKey); err != nil {
		return nil, err
	}
	all, err := p.profiles.of(ctx, h.GetCity())
	if err != nil {
		return nil, err
	}
	out := &hotelpb.Profiles{}
	for _, id := range h.GetIds() {
		i := slices.IndexFunc(all, func(d *description) bool { return d.ID == id })
		if i < 0 {
			return nil, status.Errorf(codes.NotFound, "no hotel %d in %s", id, h.GetCity())
		}
		d := all[i]
		out.Hotels = append(out.Hotels, &hotelpb.Description{Id: d.ID, Name: d.Name, Phone: d.Phone, Text: d.Text})
	}
	return out, nil
}
