package planted

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// MinCore is the least length of a core, in bytes.
const MinCore = 8

// Class is a kind of secret or decoy.
type Class struct {
	Name string
	// make writes value n: no two below 10,000,000 have the same core.
	make func(n uint64) (text, core string)
}

func (c Class) value(n uint64, decoy bool) Value {
	text, core := c.make(n)
	return Value{Class: c.Name, Decoy: decoy, Text: text, Core: core}
}

// Secrets are the kinds of personal data and of credentials.
var Secrets = []Class{
	{"e-mail address", func(n uint64) (string, string) {
		core := "aino." + word(n)
		return core + "@mail.example.com", core
	}},
	{"name", func(n uint64) (string, string) {
		core := capital(word(n))
		return "Aino " + core, core
	}},
	{"phone, E.164", func(n uint64) (string, string) {
		core := "358" + digits(n, 9)
		return "+" + core, core
	}},
	{"phone, national", func(n uint64) (string, string) {
		core := "040-" + digits(n, 8)
		return core, core
	}},
	{"IBAN", func(n uint64) (string, string) {
		core := digits(n, 14)
		return "FI" + ibanCheck("FI", core, 0) + core, core
	}},
	{"card", func(n uint64) (string, string) { return card(n, 0) }},
	{"national id, US", func(n uint64) (string, string) {
		n = scatter(n, 500*99*9999)
		core := fmt.Sprintf("%03d-%02d-%04d", 100+n%500, 1+n/500%99, 1+n/500/99)
		return core, core
	}},
	{"national id, FI", func(n uint64) (string, string) {
		n = scatter(n, 28*12*100*898)
		core := identityCode(1+n%28, 1+n/28%12, n/336%100, 2+n/33_600)
		return core, core
	}},
	{"JWT", func(n uint64) (string, string) {
		enc := base64.RawURLEncoding.EncodeToString
		core := alphanumeric(n, 43)
		return enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"account"}`)) + "." + core, core
	}},
	{"bearer token", func(n uint64) (string, string) {
		core := alphanumeric(n, 32)
		return "Bearer " + core, core
	}},
	{"API key", func(n uint64) (string, string) {
		core := alphanumeric(n, 36)
		return "ghp" + "_" + core, core
	}},
	{"password in a URL", func(n uint64) (string, string) {
		core := alphanumeric(n, 14)
		return "postgres://shop:" + core + "@db.internal:5432/shop", core
	}},
	{"session cookie", func(n uint64) (string, string) {
		core := hexadecimal(n)
		return "sid=" + core + "; theme=dark", core
	}},
	{"IPv4 address", func(n uint64) (string, string) {
		n = scatter(n, 100*100*100*100)
		core := fmt.Sprintf("%d.%d.%d.%d", 100+n%100, 100+n/100%100, 100+n/10_000%100, 100+n/1_000_000)
		return core, core
	}},
	{"IPv6 address", func(n uint64) (string, string) {
		h := hexadecimal(n)
		core := h[:4] + ":" + h[4:8] + ":" + h[8:12]
		return "2001:db8:a:b:c:" + core, core
	}},
}

// Decoys look like secrets. Whoever changes them raises a false alarm.
var Decoys = []Class{
	{"card, wrong check digit", func(n uint64) (string, string) { return card(n, 1) }},
	{"IBAN, wrong check digits", func(n uint64) (string, string) {
		core := digits(n, 14)
		return "FI" + ibanCheck("FI", core, 1) + core, core
	}},
	{"16-digit order number", func(n uint64) (string, string) {
		core := "1" + digits(n, 15)
		return core, core
	}},
	{"timestamp, ns", func(n uint64) (string, string) {
		core := "17" + digits(n, 17)
		return core, core
	}},
	{"version of four parts", func(n uint64) (string, string) {
		n = scatter(n, 90*90*90*90)
		core := fmt.Sprintf("%d.%d.%d.%d", 10+n%90, 10+n/90%90, 10+n/8100%90, 10+n/729_000)
		return "firmware " + core, core
	}},
	{"date and offset", func(n uint64) (string, string) {
		core := "59." + digits(n, 9)
		return "2026-03-07T12:41:" + core + "+02:00", core
	}},
	{"UUID", func(n uint64) (string, string) {
		h := hexadecimal(n)
		core := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		return core, core
	}},
	{"trace id", func(n uint64) (string, string) {
		core := hexadecimal(n)
		return core, core
	}},
	{"module@version", func(n uint64) (string, string) {
		core := word(n)
		return "shop/" + core + "@v1.20.3", core
	}},
	{"git remote", func(n uint64) (string, string) {
		core := word(n)
		return "git@code.example.com:" + core + "/shop.git", core
	}},
	{"URL without a password", func(n uint64) (string, string) {
		core := word(n)
		return "https://shop.example.com:8443/@" + core + "/orders", core
	}},
	{"count of tokens", func(n uint64) (string, string) {
		core := digits(n, 12)
		return "input_tokens=" + core, core
	}},
	{"word after a colon", func(n uint64) (string, string) {
		core := word(n)
		return "unexpected token: " + core, core
	}},
}

// scatter permutes the numbers below size, so that neighbours do not look alike. Numbers from
// size on begin anew.
func scatter(n, size uint64) uint64 {
	const prime = 2_147_483_629 // no divisor of any size in this package
	return n % size * (prime % size) % size
}

// digits are so many digits, 18 at most; the last nine of them are n, scattered.
func digits(n uint64, length int) string {
	const last = 9 // more would overflow
	if length > last {
		return fmt.Sprintf("%0*d", length-last, mixed(n)%power(length-last)) + digits(n, last)
	}
	return fmt.Sprintf("%0*d", length, scatter(n, power(length)))
}

func power(digits int) uint64 {
	p := uint64(1)
	for range digits {
		p *= 10
	}
	return p
}

// word is n in five syllables, 10 letters.
func word(n uint64) string {
	const consonants, vowels = "bdfghjklmnprstv", "aeiou"
	const syllables = uint64(len(consonants) * len(vowels))
	n = scatter(n, syllables*syllables*syllables*syllables*syllables)
	b := make([]byte, 0, 10)
	for range 5 {
		b = append(b, consonants[n%syllables/uint64(len(vowels))], vowels[n%syllables%uint64(len(vowels))])
		n /= syllables
	}
	return string(b)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// mixed is splitmix64's finalizer, a permutation of all numbers of 64 bits.
func mixed(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// hexadecimal has 32 digits.
func hexadecimal(n uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], mixed(n))
	binary.BigEndian.PutUint64(b[8:], mixed(mixed(n)))
	return fmt.Sprintf("%x", b)
}

// alphanumeric has so many letters and digits, at least 11: the first of them are a permutation of n.
func alphanumeric(n uint64, length int) string {
	const set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, 0, length)
	for left := n; len(b) < length; {
		left = mixed(left)
		for x := left; x > 0 && len(b) < length; x /= uint64(len(set)) {
			b = append(b, set[x%uint64(len(set))])
		}
	}
	return string(b)
}

// card is a number of 16 digits; off is what is added to its check digit (ISO/IEC 7812-1).
func card(n uint64, off int) (text, core string) {
	number := "45" + digits(n, 13)
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	number += strconv.Itoa((10 - sum%10 + off) % 10)
	return number, number
}

// ibanCheck are the check digits of an IBAN (ISO 13616), off too great.
func ibanCheck(country, account string, off int) string {
	rest := 0
	for _, c := range []byte(account + country + "00") {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return fmt.Sprintf("%02d", 2+(96-rest+off)%97) // 98-rest, from 02 to 98
}

// identityCode is a Finnish personal identity code of the 20th century: day of birth, number,
// check character.
func identityCode(day, month, year, number uint64) string {
	const checks = "0123456789ABCDEFHJKLMNPRSTUVWXY"
	check := checks[(((day*100+month)*100+year)*1000+number)%uint64(len(checks))]
	return fmt.Sprintf("%02d%02d%02d-%03d%c", day, month, year, number, check)
}
