package load

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"maps"
)

// version is behind the path.
const version = " HTTP/1.1\r\n"

// requestTail is the part of a request after its first line, which is always the same;
// with AppendBody it ends where the length of the body has to follow.
func requestTail(o *Options) []byte {
	var tail []byte
	field := func(name, value string) {
		tail = append(append(append(append(tail, name...), ": "...), value...), "\r\n"...)
	}
	own := map[string]string{"Host": o.Addr, "User-Agent": "tare-load"}
	if o.BodySize > 0 || o.AppendBody != nil {
		own["Content-Type"] = "application/octet-stream"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		delete(own, http.CanonicalHeaderKey(name))
	}
	for _, name := range []string{"Host", "User-Agent", "Content-Type"} {
		if value, ok := own[name]; ok {
			field(name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		field(name, o.Header[name])
	}
	if o.Close {
		field("Connection", "close")
	}
	if o.AppendBody != nil {
		return append(tail, "Content-Length: "...)
	}
	if o.BodySize > 0 {
		field("Content-Length", strconv.Itoa(o.BodySize))
	}
	tail = append(tail, "\r\n"...)
	for i := range o.BodySize {
		tail = append(tail, 'a'+byte(i%26))
	}
	return tail
}

// validateHeader refuses what would not be sent as one field of its own, or
// would contradict what the generator sends.
func validateHeader(header map[string]string) error {
	seen := map[string]string{}
	for name, value := range header {
		if !isToken(name) {
			return fmt.Errorf("load: header name %q is not a token", name)
		}
		for i := range len(value) {
			if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
				return fmt.Errorf("load: the value of header %q holds a control character (0x%02x)", name, c)
			}
		}
		canonical := http.CanonicalHeaderKey(name)
		switch canonical {
		case "Connection", "Content-Length", "Transfer-Encoding":
			return fmt.Errorf("load: header %q is set by the generator itself: leave it out", name)
		}
		if other, ok := seen[canonical]; ok {
			return fmt.Errorf("load: headers %q and %q are the same", min(name, other), max(name, other))
		}
		seen[canonical] = name
	}
	return nil
}

// isToken: RFC 9110, 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
