package adaptive

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// maxNotification bounds a notification, in bytes. Alertmanager sends all alerts of a group in one
// request, about 1 KiB each; max_alerts in its configuration makes that fewer.
const maxNotification = 1 << 20

// AlertHandler is a receiver for Alertmanager's webhook (webhook_configs, version 4): POST raises
// rates while alerts fire, to at least what the first matching rule says, until they are resolved or
// c.Limit is over. As with an incident, MaxRate, pressure and the budget bound the rates from above.
//
// GET shows what raises the rate, with the audit, as [IncidentState]; DELETE is [Sampler.EndAlerts].
// A request without the token is answered with 401, one that cannot be read with 400, one of more
// than 1 MiB with 413: none of them changes anything, nor does Alertmanager repeat them.
//
// The error names everything in c that is wrong.
func (s *Sampler) AlertHandler(c AlertConfig) (http.Handler, error) {
	c, err := c.validated(s.maxRoutes > 0)
	if err != nil {
		return nil, err
	}
	return bearer{c.Token, s.refusedAlerts, methods{
		http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { s.showIncident(w) },
		http.MethodPost: func(w http.ResponseWriter, r *http.Request) {
			text, ok := body(w, r, maxNotification)
			if !ok {
				s.refusedAlerts()
				return
			}
			alerts, err := parseAlerts(text)
			if err != nil {
				s.refusedAlerts()
				refuse(w, http.StatusBadRequest, err)
				return
			}
			s.notify(&c, alerts, "alertmanager "+r.RemoteAddr)
			s.showIncident(w)
		},
		http.MethodDelete: s.endsBy(s.endAlerts, "no alert raises rates"),
	}}, nil
}

// bearer lets in who has the token (RFC 6750, section 2.1), or everyone if there is none.
type bearer struct {
	token   string
	refused func()
	next    http.Handler
}

func (b bearer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.token != "" {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		want, got := sha256.Sum256([]byte(b.token)), sha256.Sum256([]byte(token)) // of one length
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			b.refused()
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, errors.New("want the header Authorization: Bearer and the token that the service is configured with"))
			return
		}
	}
	b.next.ServeHTTP(w, r)
}
