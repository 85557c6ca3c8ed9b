// Package hotel is what the services of tare-hotel and the chain that starts them
// know alike: what request n asks for, and what the stores hold. It refuses
// chance: everything follows from the number of the request.
package hotel

import (
	"fmt"
	"strings"
)

// Kind is what a request asks for.
type Kind int

// The kinds, by the path of their requests at the frontend.
const (
	Search Kind = iota
	Recommend
	User
	Reserve
)

// Paths of the kinds, up to the number.
var Paths = [...]string{Search: "/hotels/", Recommend: "/recommendations/", User: "/user/", Reserve: "/reservation/"}

// cycle is the number of requests after which the mix of kinds repeats.
const cycle = 200

// KindOf is the kind of request n. Of any 200 in a row, 120 are searches, 78 ask
// for recommendations, one checks a user and one makes a reservation: the mix of
// DeathStarBench's hotel reservation (60%, 39%, 0.5%, 0.5%).
func KindOf(n uint64) Kind {
	switch i := n % cycle * 61 % cycle; { // 61 has no common factor with 200: each remainder once
	case i < 120:
		return Search
	case i < 198:
		return Recommend
	case i < 199:
		return User
	}
	return Reserve
}

// Cities are those that hotels are in, each with the same number of hotels. Services have in memory what they
// know of them, but for the last one: its data are read from the database each time.
var Cities = []string{"amsterdam", "berlin", "copenhagen", "dublin", "edinburgh", "florence", "geneva", "helsinki", "istanbul", "reykjavik"}

// HotelsOfACity there are; the hotels of city i are i*HotelsOfACity and following.
const HotelsOfACity = 8

// Near is how many hotels a search finds.
const Near = 5

// CityOf is the index of the city that request n is about: one in ten of each kind
// is about the city that is not in memory.
func CityOf(n uint64) int { return int((n/cycle*7 + n%cycle*61%cycle) % uint64(len(Cities))) }

// InMemory reports whether services keep the data of a city.
func InMemory(city string) bool { return city != Cities[len(Cities)-1] }

// Where a hotel is: latitude and longitude in degrees.
func Where(id int) (latitude, longitude float64) {
	city := id / HotelsOfACity
	return 40 + 2*float64(city) + 0.01*float64(id%HotelsOfACity), 5 + 3*float64(city) - 0.007*float64(id*id%HotelsOfACity)
}

// Spot is where request n searches from.
func Spot(n uint64) (latitude, longitude float64) {
	latitude, longitude = Where(CityOf(n)*HotelsOfACity + int(n%HotelsOfACity))
	return latitude + 0.001*float64(n%13), longitude - 0.001*float64(n%17)
}

// Users there are.
const Users = 500

// UserOf is the name and the password of who sends request n.
func UserOf(n uint64) (name, password string) {
	i := n % Users
	return fmt.Sprintf("user%d", i), fmt.Sprintf("secret%d", i)
}

// Texts of statements, with the number of the request at their end: a comment,
// since the rest of a statement must not change.
const (
	SelectRates    = "SELECT id, cents FROM rates WHERE city = $1 -- "
	SelectProfiles = "SELECT id, name, phone, text FROM profiles WHERE city = $1 -- "
	SelectRooms    = "SELECT id, rooms FROM capacity WHERE city = $1 -- "
	SelectPassword = "SELECT password FROM users WHERE name = $1 -- "
	InsertStay     = "INSERT INTO reservations (hotel, name, day, nights) VALUES ($1, $2, $3, $4) -- "
)

// Keys of a request in the stores, up to its number. A request asks for what was
// agreed for it alone, which is never anything: it then gets what all get.
const (
	RateKey     = "rate:"
	ProfileKey  = "profile:"
	RoomsKey    = "rooms:"
	PersonalKey = "personal:"
)

// SQL makes the tables and fills them. Each statement is a line, as PostgreSQL's
// single-user mode reads them.
func SQL() string {
	var b strings.Builder
	for _, table := range []string{
		"rates (id int, city text, cents int)",
		"profiles (id int, city text, name text, phone text, text text)",
		"capacity (id int, city text, rooms int)",
		"users (name text PRIMARY KEY, password text)",
		"reservations (hotel int, name text, day int, nights int)",
	} {
		fmt.Fprintf(&b, "CREATE TABLE %s\n", table)
	}
	values := func(table string, n int, row func(i int) string) {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = "(" + row(i) + ")"
		}
		fmt.Fprintf(&b, "INSERT INTO %s VALUES %s\n", table, strings.Join(rows, ","))
	}
	hotels := len(Cities) * HotelsOfACity
	city := func(i int) string { return Cities[i/HotelsOfACity] }
	values("rates", hotels, func(i int) string { return fmt.Sprintf("%d,'%s',%d", i, city(i), 7000+i*137%9000) })
	values("profiles", hotels, func(i int) string {
		return fmt.Sprintf("%d,'%s','Hotel %d','+00 %07d','A quiet house with %d rooms, ten minutes from the station of %s.'", i, city(i), i, i*7919, 20+i%60, city(i))
	})
	values("capacity", hotels, func(i int) string { return fmt.Sprintf("%d,'%s',%d", i, city(i), 20+i%60) })
	values("users", Users, func(i int) string {
		name, password := UserOf(uint64(i)) //nolint:gosec // below Users
		return fmt.Sprintf("'%s','%s'", name, password)
	})
	b.WriteString("CREATE INDEX ON rates (city)\nCREATE INDEX ON profiles (city)\nCREATE INDEX ON capacity (city)\n")
	return b.String()
}
