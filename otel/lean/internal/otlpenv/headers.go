package otlpenv

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParseHeaders reads "key1=value1,key2=value2" in the form of W3C baggage
// (https://www.w3.org/TR/baggage/#header-content, without metadata): values are
// percent-decoded, keys are HTTP tokens, empty members are skipped. Errors do
// not show values: they are secrets as a rule.
func ParseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for i, member := range strings.Split(text, ",") {
		if strings.TrimSpace(member) == "" {
			continue
		}
		name, value, ok := strings.Cut(member, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return nil, fmt.Errorf("member %d has no \"=\": the form is key1=value1,key2=value2, and a comma within a value is %%2C", i+1)
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("the value of header %q has a %% that no two hexadecimal digits follow: write %%25 for a percent sign", name)
		}
		value = strings.TrimSpace(value)
		if err := CheckHeader(name, value); err != nil {
			return nil, err
		}
		headers[name] = value
	}
	return headers, nil
}

// CheckHeader refuses what cannot be a header's name (RFC 9110, section 5.6.2)
// or value (section 5.5).
func CheckHeader(name, value string) error {
	if name == "" {
		return errors.New("a header has no name")
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return fmt.Errorf("%q cannot be the name of a header", name)
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the value of header %q has a control character", name)
		}
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
