// Package health reads the Prometheus endpoints of agents and collectors, and selects the
// metrics that say whether traces can be trusted: what was lost, why, and what tracing
// costs. It keeps no history; a Prometheus server does.
package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	dto "github.com/prometheus/client_model/go"
)

// Limits of reading.
const (
	readTimeout = 3 * time.Second // of one endpoint
	maxBody     = 4 << 20         // bytes of a response
	maxAtOnce   = 8               // endpoints
	freshness   = 1 * time.Second // younger readings are reused: many open pages cost one
)

// Sources are the endpoints to read.
type Sources struct {
	urls    []string
	client  *http.Client
	timeout time.Duration // of one endpoint
	fresh   time.Duration

	mu   sync.Mutex
	at   time.Time
	last []Source
}

// New does not read yet.
func New(urls []string) *Sources {
	return &Sources{urls: urls, timeout: readTimeout, fresh: freshness, client: &http.Client{
		// No redirects: the target would not be the endpoint that was configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, // read at most once a second: idle connections are not worth keeping
		},
	}}
}

// Check reports whether this can be the URL of a Prometheus endpoint.
func Check(address string) error {
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	if strings.Contains(address, "@") { // it may contain a password
		address = "this"
	}
	return fmt.Errorf("%s is no URL of a Prometheus endpoint: use one such as http://127.0.0.1:9464/metrics", address)
}

// Source is the result of reading one endpoint. It is down if it did not answer, or not
// with Prometheus text.
type Source struct {
	URL       string     `json:"url"`
	Up        bool       `json:"up"`
	Error     string     `json:"error"`
	Agent     *Agent     `json:"agent"`     // null: it is none
	Collector *Collector `json:"collector"` // null: it is none
	Metrics   []Metric   `json:"metrics"`
}

// Read reads all endpoints concurrently. The list includes those that are down.
func (s *Sources) Read(ctx context.Context) []Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.at) < s.fresh {
		return s.last
	}
	out := make([]Source, len(s.urls))
	var group errgroup.Group
	group.SetLimit(maxAtOnce)
	for i, u := range s.urls {
		group.Go(func() error {
			out[i] = s.read(ctx, u)
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
	if ctx.Err() == nil {
		s.at, s.last = time.Now(), out
	}
	return out
}

func (s *Sources) read(ctx context.Context, address string) Source {
	src := Source{URL: redacted(address), Metrics: []Metric{}}
	err := Check(address)
	var families map[string]*dto.MetricFamily
	if err == nil {
		families, err = s.scrape(ctx, address)
	}
	if err != nil {
		src.Error = err.Error()
		return src
	}
	src.Up = true
	src.group(families)
	return src
}

// redacted hides the password in a URL. An invalid URL may have one anywhere, and is
// hidden.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || Check(address) != nil {
		return "(no URL)"
	}
	return u.Redacted()
}

func (s *Sources) scrape(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	res, err := s.client.Do(req)
	if err != nil {
		return nil, s.plain(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", res.Status)
	}
	// Read it all before parsing: the time limit is for the endpoint only.
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, s.plain(err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("answered with more than %d MiB", maxBody>>20)
	}
	return parse(bytes.NewReader(body))
}

// plain removes what url.Error adds: the method and the URL, which may contain a
// password.
func (s *Sources) plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("did not answer within %v", s.timeout)
	}
	return err
}

func parse(r io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("is no Prometheus text: %w", err)
	}
	return families, nil
}
