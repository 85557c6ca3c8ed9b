package otlpenv

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

func validPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" && !strings.HasSuffix(u.Host, ":") || err == nil && n > 0
}

// ParseURL reads an endpoint with the scheme http or https and refuses the
// parts of a URL that would be lost on the way. Errors do not repeat the text:
// it may hold a password.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return nil, fmt.Errorf("not a URL (%w): the form is http://localhost:4318 or https://host/path", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case !validPort(u):
		return nil, errors.New("the port of the URL is not a number from 1 to 65535")
	case u.User != nil:
		return nil, errors.New("the URL holds a user name: send credentials as headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL has a query or a fragment, which would not be sent: leave it away")
	}
	return u, nil
}
