package adaptive

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// The handlers do not authenticate, except for AlertHandler with a token: put them
// where only operators can reach them, who may see the names of routes and change
// what is sampled.

// StateHandler answers GET with [State] as JSON, as /adaptive-metrics does in
// Hoikka 2026.
func (s *Sampler) StateHandler() http.Handler {
	return methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.State()) }}
}

// ConfigHandler answers GET with the [Config] in force, and changes it: PUT
// replaces it (what the body leaves out gets its default), PATCH changes what
// the body names. Both are answered with what is in force then, or with 400
// and what is wrong, in which case nothing has changed.
func (s *Sampler) ConfigHandler() http.Handler {
	change := func(keep bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text, ok := body(w, r, maxFile)
			if !ok {
				return
			}
			err := s.change(func(c *Config) error {
				if !keep {
					*c = DefaultConfig()
				}
				return json.Unmarshal(text, c)
			})
			if err != nil {
				refuse(w, http.StatusBadRequest, err)
				return
			}
			answer(w, http.StatusOK, s.Config())
		}
	}
	return methods{
		http.MethodGet:   func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Config()) },
		http.MethodPut:   change(false),
		http.MethodPatch: change(true),
	}
}

// IncidentHandler is the switch: POST begins an incident,
//
//	{"rate":0.5, "duration":"15m", "reason":"checkout is slow"}
//
// with a rate above 0 (1 if left out) and a duration, or until and an RFC 3339
// time, of at most 7 days; DELETE ends it. GET shows the incidents and their
// audit; so do the answers to the others, as [IncidentState].
func (s *Sampler) IncidentHandler() http.Handler {
	return methods{
		http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { s.showIncident(w) },
		http.MethodPost: func(w http.ResponseWriter, r *http.Request) {
			text, ok := body(w, r, maxFile)
			if !ok {
				return
			}
			now := s.clock()
			i, err := parseIncident(text, now)
			switch {
			case err != nil:
			case i.Until.IsZero():
				err = errors.New("give a duration such as \"15m\", or until")
			default:
				err = s.startIncident(i.Rate, i.Until.Sub(now), "http "+r.RemoteAddr, i.Reason)
			}
			if err != nil {
				refuse(w, http.StatusBadRequest, err)
				return
			}
			s.showIncident(w)
		},
		http.MethodDelete: s.endsBy(s.endIncident, "no incident was begun by program or HTTP"),
	}
}

// showIncident answers with what raises the rate.
func (s *Sampler) showIncident(w http.ResponseWriter) { answer(w, http.StatusOK, s.State().Incident) }

// endsBy answers DELETE: end reports whether there was something to end, nothing says that there was not.
func (s *Sampler) endsBy(end func(source, reason string) bool, nothing string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !end("http "+r.RemoteAddr, "DELETE") {
			refuse(w, http.StatusNotFound, errors.New(nothing))
			return
		}
		s.showIncident(w)
	}
}

// methods chooses by method; HEAD is answered as GET.
type methods map[string]http.HandlerFunc

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := m[method]; ok {
		h(w, r)
		return
	}
	var allowed []string
	for _, known := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, ok := m[known]; ok || known == http.MethodHead {
			allowed = append(allowed, known)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	refuse(w, http.StatusMethodNotAllowed, errors.New("want "+strings.Join(allowed, ", ")))
}

// body reads at most limit bytes; it has answered the request where it returns false.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, err)
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	default:
		return text, true
	}
	return nil, false
}

func answer(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		code = http.StatusInternalServerError
		b.Reset()
		b.WriteString("{\"error\":\"the answer cannot be written as JSON\"}\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the caller is gone: nobody to tell
}

func refuse(w http.ResponseWriter, code int, err error) {
	answer(w, code, struct {
		Error string `json:"error"`
	}{err.Error()})
}
