package config

import (
	"errors"
	"net/netip"
	"strings"
)

// Trust is a network that tags are sent to and accepted from: a prefix, or one of three
// names that the running agent resolves.
type Trust struct {
	Prefix   netip.Prefix // without host bits; zero if one of the following is set
	Loopback bool         // "loopback": 127.0.0.0/8 and ::1
	Host     bool         // "host": this host's own addresses
	Cluster  bool         // "cluster": the networks of its pods, services and nodes; without a cluster, none
}

func (t Trust) String() string {
	switch {
	case t.Loopback:
		return "loopback"
	case t.Host:
		return "host"
	case t.Cluster:
		return "cluster"
	}
	return t.Prefix.String()
}

// Prefixes are the networks of t; host are the host's own addresses, cluster the
// cluster's networks.
func (t Trust) Prefixes(host, cluster []netip.Prefix) []netip.Prefix {
	switch {
	case t.Loopback:
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	case t.Host:
		return host
	case t.Cluster:
		return cluster
	}
	return []netip.Prefix{t.Prefix}
}

// TrustsHost reports whether the host's own addresses are needed.
func (c *Config) TrustsHost() bool {
	for _, t := range c.Trust {
		if t.Host {
			return true
		}
	}
	return false
}

// ParseTrust reads "10.0.0.0/8", "::1", "loopback", "host" or "cluster". A prefix with host bits is
// an error, because it is usually a mistake.
func ParseTrust(where, text string) (Trust, error) {
	switch text {
	case "loopback":
		return Trust{Loopback: true}, nil
	case "host":
		return Trust{Host: true}, nil
	case "cluster":
		return Trust{Cluster: true}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, aerr := netip.ParseAddr(text)
		if aerr != nil || a.Zone() != "" {
			return Trust{}, &Error{where, text, `a network such as 10.0.0.0/8 or fd00::/8, an address, "loopback", "host", "cluster", or "none" alone`}
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return Trust{}, &Error{where, text, "an IPv4 network written as such"}
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return Trust{}, &Error{where, text, "the network without host bits: " + p.Masked().String()}
	}
	return Trust{Prefix: p}, nil
}

// parseTrustList replaces the list; "none" alone empties it.
func parseTrustList(c *Config, where string, texts []string) error {
	var list []Trust
	var errs []error
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "none" && len(texts) == 1 {
			break
		}
		t, err := ParseTrust(where, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, t)
	}
	c.Trust = list
	return errors.Join(errs...)
}
