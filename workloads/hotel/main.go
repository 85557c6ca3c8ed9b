// Command tare-hotel is one service of a small mesh in the shape of DeathStarBench's
// hotel reservation: the argument says which. A frontend answers HTTP and asks search
// (which asks geo and rate), recommendation, profile, reserve and user by gRPC; rate,
// profile and reserve look into memcached, recommendation into redis, and PostgreSQL
// has what is not in memory. All carry the number of the request: in the path, in
// the metadata x-request-id, in the key, and at the end of the statement.
//
// It refuses chance: what a request asks for, and which requests are late, follows
// from the number (packages internal/hotel and delay).
//
// Environment:
//
//	LISTEN          host:port (127.0.0.1:8080)
//	SEARCH, GEO, RATE, RECOMMENDATION, PROFILE, RESERVE, USER
//	                host:port of the replicas of a service, with commas between
//	MEMCACHED, REDIS, POSTGRES
//	                host:port of the service's store
//	DELAY           requests that are answered late, see package delay
//	ENABLE_OTEL     tracing is on if it is not empty
//	PIPELINE, SAMPLER, KEEP, KEEP_SLOWER_THAN, REDACT
//	                as in tare-counter
//
// and what the SDK reads by itself, as in tare-counter. The roles memcached-… stand in
// a memcached's place and answer late.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/tare-trace/tare/workloads/delay"
	"github.com/tare-trace/tare/workloads/internal/service"
)

func main() { service.Main("tare-hotel", run) }

// node is one process of the mesh.
type node struct {
	role    string
	env     *service.Env
	delays  delay.Delays
	tracing *service.Tracing
}

// roles of gRPC servers; each registers what it serves.
var roles = map[string]func(ctx context.Context, n *node, s *grpc.Server) error{
	"geo":            registerGeo,
	"profile":        registerProfile,
	"rate":           registerRate,
	"recommendation": registerRecommendation,
	"reserve":        registerReserve,
	"search":         registerSearch,
	"user":           registerUser,
}

func run(ctx context.Context, env *service.Env) error {
	if len(os.Args) != 2 {
		return errors.New("give one argument: the service to be, such as frontend")
	}
	n := &node{role: os.Args[1], env: env}
	var err error
	if n.delays, err = delay.Parse(env.String("DELAY", "")); err != nil {
		return fmt.Errorf("DELAY: %w", err)
	}
	register, ok := roles[n.role]
	if strings.HasPrefix(n.role, "memcached-") {
		return n.lateMemcached(ctx)
	}
	if !ok && n.role != "frontend" {
		return fmt.Errorf("there is no service %q", n.role)
	}
	if n.tracing, err = service.Switched(ctx, env); err != nil {
		return err
	}
	if n.role == "frontend" {
		return n.frontend(ctx)
	}
	return n.serve(ctx, register)
}

// addresses that a variable names.
func (n *node) addresses(key string) ([]string, error) {
	all := strings.Split(n.env.String(key, ""), ",")
	if slices.ContainsFunc(all, func(a string) bool { _, _, err := net.SplitHostPort(a); return err != nil }) {
		return nil, fmt.Errorf("%s: say where it is, host:port, with commas between replicas", key)
	}
	return all, nil
}

func (n *node) address(key string) (string, error) {
	all, err := n.addresses(key)
	if err != nil {
		return "", err
	}
	return all[0], nil
}
