// Package planted makes secrets that can be counted where they arrive: e-mail addresses,
// names, cards, tokens and the like, planted into the requests of a service under test and
// into what the service records of them, and decoys, which look like secrets and are none.
// Each value occurs in one place of one request only, so that a store that holds it is known
// to have been reached by it, whatever attribute, name or event it came in.
//
// All of it is computed from the number of the request; nothing belongs to anybody. The
// package refuses to judge: what of it may be stored is the reader's question.
package planted

import "slices"

// Place is where a value stands, of a request or of its spans.
type Place string

// The places. The first four are sent by the client; the others are what the service
// itself knows and records.
const (
	Header    Place = "header"
	Query     Place = "query"
	Body      Place = "body"
	Baggage   Place = "baggage"
	SQL       Place = "SQL"
	Attribute Place = "attribute"
	Event     Place = "event"
	Name      Place = "span name"
)

// Places in the order in which reports show them.
var Places = []Place{Header, Query, Body, Baggage, SQL, Attribute, Event, Name}

// decoyed are the places that hold a decoy, too. Literals of SQL are masked whatever they
// are, so nothing there is a false alarm, and a name has no room for two values.
var decoyed = []Place{Header, Query, Body, Baggage, Attribute, Event}

// Value is one secret or decoy.
type Value struct {
	Class string
	Decoy bool
	// Text is written as people write such values.
	Text string
	// Core is the part of Text that tells the value from all others, of at least MinCore
	// bytes: of a URL with a password, the password. It consists of ASCII letters, digits
	// and ':', '-', '.'. What does not hold it does not hold the secret.
	Core string
}

// Account is what is planted into one request. Secrets has a value for each of Places.
type Account struct {
	Number  uint64
	secrets map[Place]Value
	decoys  map[Place]Value
}

// Of are the values of request n. Of len(Secrets) requests in a row, each kind of secret is
// in each place once; so are decoys of len(Decoys).
func Of(n uint64) Account {
	a := Account{Number: n, secrets: make(map[Place]Value, len(Places)), decoys: make(map[Place]Value, len(decoyed))}
	each(n, func(place Place, v Value) {
		if v.Decoy {
			a.decoys[place] = v
		} else {
			a.secrets[place] = v
		}
	})
	return a
}

// Secret is the secret in a place.
func (a Account) Secret(p Place) Value { return a.secrets[p] }

// Decoy is the decoy in a place, the zero Value if that holds none.
func (a Account) Decoy(p Place) Value { return a.decoys[p] }

// each calls f for all values of a request, in the order of the places.
func each(n uint64, f func(Place, Value)) {
	for i, place := range Places {
		serial := 2 * (n*uint64(len(Places)) + uint64(i))                          //nolint:gosec // a few places
		f(place, Secrets[(n+uint64(i))%uint64(len(Secrets))].value(serial, false)) //nolint:gosec // a few places
		if d := slices.Index(decoyed, place); d >= 0 {
			f(place, Decoys[(n+uint64(d))%uint64(len(Decoys))].value(serial+1, true)) //nolint:gosec // a few places
		}
	}
}
