package answer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

func TestQueriesWaitWhileMemoryIsShort(t *testing.T) {
	var used atomic.Int64
	used.Store(90)
	m := &Memory{limit: 25, free: semaphore.NewWeighted(25), live: func() (int64, int64) { return used.Load(), 100 }}
	ran := 0
	h := m.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }), func(w http.ResponseWriter) { w.WriteHeader(503) })

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || ran != 0 {
		t.Errorf("with 90%% in use: %d, %d ran", w.Code, ran)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	used.Store(50)
	<-done
	if ran != 1 {
		t.Error("it did not run when memory was free again")
	}
}
