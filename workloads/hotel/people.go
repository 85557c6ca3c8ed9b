package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-trace/tare/workloads/hotel/hotelpb"
	"github.com/tare-trace/tare/workloads/internal/hotel"
)

type recommendation struct{ rdb *redis.Client }

func registerRecommendation(ctx context.Context, n *node, s *grpc.Server) error {
	rdb, err := n.openRedis(ctx)
	register(s, "hotel.Recommendation", getRecommendations.by(recommendation{rdb}.get))
	return err
}

// get returns the nearest hotels, where redis has none of the person's own.
func (r recommendation) get(ctx context.Context, p *hotelpb.Place) (*hotelpb.Hotels, error) {
	// Not by Get: it writes the command in small letters.
	if err := r.rdb.Do(ctx, "GET", withText(ctx, hotel.PersonalKey)).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return nearest(ctx, p)
}

type user struct{ db database }

func registerUser(ctx context.Context, n *node, s *grpc.Server) error {
	db, err := n.openDatabase(ctx)
	register(s, "hotel.User", checkUser.by(user{db}.check))
	return err
}

// check compares the password.
func (u user) check(ctx context.Context, l *hotelpb.Login) (*hotelpb.Checked, error) {
	var password string
	if err := u.db.pool.QueryRow(ctx, withText(ctx, hotel.SelectPassword), l.GetUser()).Scan(&password); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return &hotelpb.Checked{Ok: password == l.GetPassword()}, nil
}

type reserve struct {
	cache cache
	db    database
	rooms table[capacity]
}

type capacity struct{ ID, Rooms int32 }

func registerReserve(ctx context.Context, n *node, s *grpc.Server) error {
	c, db, err := n.stores(ctx)
	if err != nil {
		return err
	}
	rooms, err := newTable[capacity](ctx, db, hotel.SelectRooms)
	r := reserve{c, db, rooms}
	register(s, "hotel.Reserve", checkAvailability.by(r.check), makeReservation.by(r.reserve))
	return err
}

// check returns those of the hotels that have rooms.
func (r reserve) check(ctx context.Context, stay *hotelpb.Stay) (*hotelpb.Hotels, error) {
	if _, err := r.cache.get(ctx, hotel.RoomsKey); err != nil {
		return nil, err
	}
	all, err := r.rooms.of(ctx, stay.GetHotels().GetCity())
	if err != nil {
		return nil, err
	}
	rooms := map[int32]int32{}
	for _, c := range all {
		rooms[c.ID] = c.Rooms
	}
	free := &hotelpb.Hotels{City: stay.GetHotels().GetCity()}
	for _, id := range stay.GetHotels().GetIds() {
		if rooms[id] > 0 {
			free.Ids = append(free.Ids, id)
		}
	}
	return free, nil
}

// reserve stores a stay in the database.
func (r reserve) reserve(ctx context.Context, stay *hotelpb.Stay) (*hotelpb.Hotels, error) {
	if len(stay.GetHotels().GetIds()) != 1 {
		return nil, status.Errorf(codes.InvalidArgument, "%d hotels", len(stay.GetHotels().GetIds()))
	}
	if _, err := r.cache.get(ctx, hotel.RoomsKey); err != nil {
		return nil, err
	}
	if _, err := r.db.pool.Exec(ctx, withText(ctx, hotel.InsertStay),
		stay.GetHotels().GetIds()[0], stay.GetUser(), stay.GetDay(), stay.GetNights()); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return stay.GetHotels(), nil
}
