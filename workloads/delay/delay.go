// Package delay says which requests a service answers late, and by how much: the
// same for everybody who knows the number of a request, so that whoever looks for
// the cause of slow requests can be told what it was. It refuses chance: nothing
// of it depends on when or where it is asked.
package delay

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// most bounds a delay: clients give up after that long.
const most = 10 * time.Second

// Delay is what a service adds to a share of its requests.
type Delay struct {
	Service      string
	Least, Most  time.Duration // drawn uniformly between them
	Share        float64       // of requests, 0…1
	service, amt uint64        // seeds of the two draws
}

// Delays are those of several services, each named once.
type Delays []Delay

// Parse reads "geo:25ms-30ms:0.03,memcached-rate:25ms-30ms:0.03": service, least
// and greatest delay, share of requests. The empty text is none.
func Parse(text string) (Delays, error) {
	var all Delays
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		d, err := parse(part)
		if err != nil {
			return nil, fmt.Errorf("delay %q: %w; write service:25ms-30ms:0.03", part, err)
		}
		if slices.Contains(all.Services(), d.Service) {
			return nil, fmt.Errorf("delay %q: there is another of this service", part)
		}
		all = append(all, d)
	}
	return all, nil
}

func parse(text string) (d Delay, err error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 || fields[0] == "" {
		return d, fmt.Errorf("it has not three parts")
	}
	d.Service = fields[0]
	least, greatest, ok := strings.Cut(fields[1], "-")
	if !ok {
		greatest = least
	}
	if d.Least, err = time.ParseDuration(least); err != nil {
		return d, err
	}
	if d.Most, err = time.ParseDuration(greatest); err != nil {
		return d, err
	}
	if d.Least < 0 || d.Least > d.Most || d.Most > most {
		return d, fmt.Errorf("%v to %v is no range from 0 to %v", d.Least, d.Most, most)
	}
	if d.Share, err = strconv.ParseFloat(fields[2], 64); err != nil || !(d.Share >= 0 && d.Share <= 1) {
		return d, fmt.Errorf("%q is no share from 0 to 1", fields[2])
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.Service)) // never fails
	d.service = mix(h.Sum64())
	d.amt = mix(d.service)
	return d, nil
}

// Of is the delay of request n at a service, 0 for most. Services draw
// independently of each other.
func (all Delays) Of(service string, n uint64) time.Duration {
	for _, d := range all {
		if d.Service == service {
			return d.Of(n)
		}
	}
	return 0
}

// Of is the delay of request n.
func (d Delay) Of(n uint64) time.Duration {
	if draw(d.service+n) >= d.Share {
		return 0
	}
	return d.Least + time.Duration(draw(d.amt+n)*float64(d.Most-d.Least))
}

// Services that have a delay.
func (all Delays) Services() []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Service
	}
	return names
}

// draw is uniform in [0, 1).
func draw(x uint64) float64 { return float64(mix(x)>>11) / (1 << 53) }

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
