package workloads

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-trace/tare/workloads/delay"
	"github.com/tare-trace/tare/workloads/internal/hotel"
)

// hotelPlan: a mesh of Go services in the shape of DeathStarBench's hotel
// reservation. A frontend answers HTTP; behind it are seven gRPC services of three
// replicas each, which callers ask in turn, three memcached, a redis and PostgreSQL.
// The kind of request n follows from n: see internal/hotel. See hotel/main.go for
// the services.
//
// In a Network, replicas and stores are on two nodes, so that about half of all
// calls are between network namespaces; NODES=1 puts all of them into one. DELAY
// makes services and caches late (package delay).
var hotelPlan = plan{
	requires: []Requirement{redisPackage, memcachedPackage, postgresPackage},
	truth:    hotelTruth(),
	late:     hotelLate,
	path:     "/",
	paths:    func(n uint64) string { return hotel.Paths[hotel.KindOf(n)] },
	services: hotelPorts(),
	reserved: []string{
		"LISTEN", "OTEL_SERVICE_NAME", "SEARCH", "GEO", "RATE", "RECOMMENDATION", "PROFILE", "RESERVE", "USER",
		"MEMCACHED", "REDIS", "POSTGRES",
	},
	specs: hotelSpecs,
}

// hotelReplicas of each gRPC service.
const hotelReplicas = 3

// hotelService is a service of the mesh, and the variables that tell it where
// others are, by their names.
type hotelService struct {
	name string
	asks map[string]string
	// wave: who has the same is started at once, after those with a smaller one;
	// stores first.
	wave int
	// node of the first replica; the others alternate. All are on node 0 where
	// there is one.
	node int
}

// hotelServices begin with the entry, and nobody asks who stands before it. Nodes
// are chosen so that half of the calls are between them: see TestHotelNodes.
var hotelServices = []hotelService{
	{name: "frontend", wave: 4, asks: map[string]string{
		"SEARCH": "search", "RECOMMENDATION": "recommendation", "PROFILE": "profile", "RESERVE": "reserve", "USER": "user",
	}},
	{name: "search", asks: map[string]string{"GEO": "geo", "RATE": "rate"}, wave: 3},
	{name: "recommendation", asks: map[string]string{"REDIS": "redis"}, wave: 2, node: 1},
	{name: "profile", asks: map[string]string{"MEMCACHED": "memcached-profile", "POSTGRES": "postgres"}, wave: 2, node: 1},
	{name: "reserve", asks: map[string]string{"MEMCACHED": "memcached-reserve", "POSTGRES": "postgres"}, wave: 2},
	{name: "user", asks: map[string]string{"POSTGRES": "postgres"}, wave: 2, node: 1},
	{name: "geo", wave: 2, node: 1},
	{name: "rate", asks: map[string]string{"MEMCACHED": "memcached-rate", "POSTGRES": "postgres"}, wave: 2},
}

// hotelStores have one instance each. In place of a cache that is to be late stands
// a program of our own.
var hotelStores = []hotelService{
	{name: "memcached-rate", node: 1},
	{name: "memcached-profile", node: 1},
	{name: "memcached-reserve", node: 1},
	{name: "redis", node: 1},
	{name: "postgres"},
}

func isCache(name string) bool { return strings.HasPrefix(name, "memcached-") }

// replicas of a service are named by their number, where there are several.
func (s hotelService) replicas() int {
	if s.name == "frontend" {
		return 1
	}
	return hotelReplicas
}

func hotelPorts() []string {
	var names []string
	for _, s := range hotelServices {
		for i := range s.replicas() {
			names = append(names, spec{name: s.name, replica: i}.label())
		}
	}
	for _, s := range hotelStores {
		names = append(names, s.name)
	}
	return names
}

func hotelSpecs(b *builder) ([]spec, error) {
	delays, err := delay.Parse(b.opts.Env["DELAY"])
	if err != nil {
		return nil, fmt.Errorf("DELAY: %w", err)
	}
	nodes, err := hotelNodes(b)
	if err != nil {
		return nil, err
	}
	var specs []spec
	at := map[string][]string{} // addresses of the replicas
	place := func(s hotelService, label string, replica int) spec {
		sp := b.on(nodes[(s.node+replica)%2], label)
		sp.name, sp.replica, sp.wave = s.name, replica, max(s.wave, 1)
		at[s.name] = append(at[s.name], sp.address())
		return sp
	}
	for _, s := range hotelServices {
		for i := range s.replicas() {
			specs = append(specs, place(s, spec{name: s.name, replica: i}.label(), i))
		}
	}
	own := len(specs)
	slow := delays.Services()
	for _, s := range hotelStores {
		sp := place(s, s.name, 0)
		if isCache(s.name) && slices.Contains(slow, s.name) {
			sp, err = hotelBinary(b, sp, sp.name, map[string]string{})
		} else {
			sp, err = hotelStore(b, sp)
		}
		if err != nil {
			return nil, err
		}
		specs = append(specs, sp)
	}
	for _, name := range slow {
		if !isCache(name) && !slices.ContainsFunc(hotelServices, func(s hotelService) bool { return s.name == name }) || len(at[name]) == 0 {
			return nil, fmt.Errorf("DELAY: there is no service or cache %q that could be late", name)
		}
	}
	for i := range specs[:own] {
		asks := map[string]string{}
		for _, s := range hotelServices {
			for key, name := range s.asks {
				if s.name == specs[i].name {
					asks[key] = strings.Join(at[name], ",")
				}
			}
		}
		if specs[i], err = hotelBinary(b, specs[i], specs[i].name, asks); err != nil {
			return nil, err
		}
	}
	specs[0].health = "/health"
	return specs, nil
}

// hotelNodes are two networks, or the same twice.
func hotelNodes(b *builder) ([2]*Network, error) {
	first := b.opts.Network
	switch nodes := b.opts.Env["NODES"]; {
	case nodes != "" && nodes != "1" && nodes != "2":
		return [2]*Network{}, fmt.Errorf("NODES: %q is neither 1 nor 2", nodes)
	case nodes == "2" && first == nil:
		return [2]*Network{}, errors.New("NODES: two nodes need a network namespace, and so root")
	case nodes == "1" || first == nil:
		return [2]*Network{first, first}, nil
	}
	second, err := first.Second()
	return [2]*Network{first, second}, err
}

// hotelBinary completes the spec of a process of tare-hotel.
func hotelBinary(b *builder, s spec, role string, env map[string]string) (spec, error) {
	env["OTEL_SERVICE_NAME"] = s.name
	return goProcess(b, s, "tare-hotel", env, role)
}

func hotelStore(b *builder, s spec) (spec, error) {
	switch {
	case s.name == "redis":
		return redisServer(b, s)
	case s.name == "postgres":
		return postgresServer(b, s, hotel.SQL())
	}
	// A connection for each call in flight.
	return memcachedServer(s, "-t", "2", "-m", "16", "-c", "16384")
}

// postgresServer completes the spec of a PostgreSQL with a database of its own,
// which the statements fill, each a line. Whoever reaches its address is let in.
// It refuses to be root: root starts it as the package's user.
func postgresServer(b *builder, s spec, statements string) (spec, error) {
	exe, err := executable("postgres")
	if err != nil {
		return spec{}, err
	}
	dir := filepath.Join(b.dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return spec{}, err
	}
	files := map[string]string{"seed.sql": statements, "hba.conf": "host all all all trust\n"}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // no secrets
			return spec{}, err
		}
	}
	const script = `"$1"/initdb -D "$2/data" -A trust -U tare --no-sync --no-instructions --locale C -E UTF8 >/dev/null &&
"$1"/postgres --single -F -D "$2/data" postgres <"$3/seed.sql" >/dev/null &&
exec "$1"/postgres -D "$2/data" -F -h "$4" -p "$5" -c hba_file="$3/hba.conf" -c unix_socket_directories= \
-c max_connections=100 -c shared_buffers=16MB -c autovacuum=off -c jit=off`
	s.argv = []string{"/bin/sh", "-c", script, "postgres", filepath.Dir(exe), dir, b.dir, s.host, strconv.Itoa(s.port)}
	s.dir = dir
	if os.Geteuid() != 0 {
		return s, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return spec{}, fmt.Errorf("PostgreSQL refuses to be root: %w", err)
	}
	uid, err1 := strconv.Atoi(owner.Uid)
	gid, err2 := strconv.Atoi(owner.Gid)
	if err := errors.Join(err1, err2, os.Chown(dir, uid, gid)); err != nil {
		return spec{}, err
	}
	s.argv = append([]string{"setpriv", "--reuid", owner.Uid, "--regid", owner.Gid, "--clear-groups", "--"}, s.argv...)
	return s, nil
}

// hotelLate are the services and caches that DELAY names.
func hotelLate(env map[string]string) []string {
	delays, _ := delay.Parse(env["DELAY"]) // what is wrong with it prevents the start
	return delays.Services()
}

// hotelTruth: spans by kind of request, and whether the city is in memory.
func hotelTruth() Truth {
	cached := func(service, key string) Shape {
		return onWire(call(service, "gets "+key, serve("memcached-"+service, "gets "+key)))
	}
	stored := func(service, store, text string) Shape { return call(service, text, onWire(serve(store, text))) }
	rpc := func(from, to, method string, calls ...Shape) Shape {
		return call(from, method, serve(to, method, calls...))
	}
	var shapes [len(hotel.Paths)][2]Shape
	for i := range 2 {
		// with is what is asked of a cache, and of the database if it must be.
		with := func(service, key, text string) []Shape {
			all := []Shape{cached(service, key)}
			if i == 1 {
				all = append(all, stored(service, "postgres", text))
			}
			return all
		}
		profiles := rpc("frontend", "profile", "hotel.Profile/GetProfiles", with("profile", hotel.ProfileKey, hotel.SelectProfiles)...)
		check := rpc("frontend", "user", "hotel.User/CheckUser", stored("user", "postgres", hotel.SelectPassword))
		shapes[hotel.Search][i] = serve("frontend", hotel.Paths[hotel.Search],
			rpc("frontend", "search", "hotel.Search/Nearby",
				rpc("search", "geo", "hotel.Geo/Nearby"),
				rpc("search", "rate", "hotel.Rate/GetRates", with("rate", hotel.RateKey, hotel.SelectRates)...)),
			rpc("frontend", "reserve", "hotel.Reserve/CheckAvailability", with("reserve", hotel.RoomsKey, hotel.SelectRooms)...),
			profiles)
		shapes[hotel.Recommend][i] = serve("frontend", hotel.Paths[hotel.Recommend],
			rpc("frontend", "recommendation", "hotel.Recommendation/GetRecommendations", stored("recommendation", "redis", "GET "+hotel.PersonalKey)),
			profiles)
		shapes[hotel.User][i] = serve("frontend", hotel.Paths[hotel.User], check)
		shapes[hotel.Reserve][i] = serve("frontend", hotel.Paths[hotel.Reserve], check,
			rpc("frontend", "reserve", "hotel.Reserve/MakeReservation",
				cached("reserve", hotel.RoomsKey), stored("reserve", "postgres", hotel.InsertStay)))
	}
	return func(n uint64) Shape {
		of := &shapes[hotel.KindOf(n)]
		if hotel.InMemory(hotel.Cities[hotel.CityOf(n)]) {
			return of[0]
		}
		return of[1]
	}
}
