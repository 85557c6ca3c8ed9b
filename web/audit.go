package web

import (
	"net/http"

	"github.com/tare-trace/tare/web/internal/answer"
)

// Asked is a request of an API that is about to be answered.
type Asked struct {
	*http.Request
	Route    string   // the path's pattern; "" if there is no such path
	Services []string // that were asked for, or of which spans are in the answer, at most 100
	Traces   int      // in the answer, or counted in it
	Status   int      // of the answer
}

// audited calls Audit with each request, before the first byte of its answer is sent.
func (o *Options) audited(next http.Handler, refuse func(w http.ResponseWriter, status int, text string)) http.Handler {
	if o.Audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, q := answer.WithQuery(r.Context())
		a := &auditing{ResponseWriter: w, refuse: refuse, audit: func(status int) error {
			return o.Audit(Asked{r, q.Route, q.Services, q.Traces, status})
		}}
		defer func() {
			if !a.done { // nothing was answered: what was asked for made the handler panic
				_ = o.Audit(Asked{r, q.Route, q.Services, q.Traces, http.StatusInternalServerError})
			}
		}()
		next.ServeHTTP(a, r.WithContext(ctx))
	})
}

// auditing is a response of which the beginning is held until it is recorded.
type auditing struct {
	http.ResponseWriter
	refuse  func(w http.ResponseWriter, status int, text string)
	audit   func(status int) error
	done    bool
	refused bool // something else has been answered
}

func (a *auditing) WriteHeader(status int) {
	if a.done {
		if !a.refused {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	a.done = true
	if err := a.audit(status); err != nil {
		a.refused = true
		a.Header().Del("Content-Disposition")
		a.refuse(a.ResponseWriter, http.StatusServiceUnavailable, "queries are refused while what is asked cannot be recorded: the log of this store has the reason")
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *auditing) Write(b []byte) (int, error) {
	if !a.done {
		a.WriteHeader(http.StatusOK)
	}
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}
