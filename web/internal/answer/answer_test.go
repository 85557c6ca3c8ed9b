package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tare-trace/tare/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shape(status int, text string) any { return map[string]any{"status": status, "text": text} }

func serve(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		logged bool
	}{
		{BadRequest("limit=%d", 0), 400, false},
		{NotFound("no"), 404, false},
		{TooLarge("large"), 413, false},
		{fmt.Errorf("read: %w", store.ErrNotFound), 404, false},
		{fmt.Errorf("cursor: %w", store.ErrInvalid), 400, false},
		{store.ErrClosed, 503, false},
		{context.DeadlineExceeded, 504, false},
		{fmt.Errorf("block 7: %w", store.ErrCorrupt), 500, true},
		{errors.New("else"), 500, true},
	} {
		var log strings.Builder
		s := serve(t, Handler(slog.New(slog.NewTextHandler(&log, nil)), func(*http.Request) (any, error) { return nil, c.err }, shape))
		status, body, err := get(t, s.URL+"/x?a=b")
		if err != nil || status != c.status || !strings.Contains(body, fmt.Sprintf(`"status":%d`, c.status)) || !strings.Contains(body, `"text":"`) {
			t.Errorf("%v: %d %s %v", c.err, status, body, err)
		}
		s.Close() // the handler is done with the log
		if got := strings.Contains(log.String(), "query failed"); got != c.logged {
			t.Errorf("%v: logged %q", c.err, &log)
		}
	}
}

type half struct{ err error }

func (h half) WriteJSON(_ context.Context, w http.ResponseWriter) error {
	_, _ = io.WriteString(w, `{"spans":[`)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	return h.err
}

// Half an answer must not look like a whole one.
func TestABrokenAnswerCutsTheConnection(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	s := serve(t, Handler(log, func(*http.Request) (any, error) { return half{errors.New("broken")}, nil }, shape))
	if status, body, err := get(t, s.URL); err == nil {
		t.Errorf("%d %q came as if whole", status, body)
	}
	s = serve(t, Handler(log, func(*http.Request) (any, error) { return half{}, nil }, shape))
	if status, body, err := get(t, s.URL); err != nil || status != 200 || body != `{"spans":[` {
		t.Errorf("%d %q %v", status, body, err)
	}
}

func TestWhatJSONCannotHold(t *testing.T) {
	w := httptest.NewRecorder()
	JSON(w, 200, map[string]any{"f": func() {}})
	if w.Code != 500 || !strings.Contains(w.Body.String(), "error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	JSON(w, 200, "\xff<")
	if w.Code != 200 || w.Body.String() != "\"\\ufffd\\u003c\"\n" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
