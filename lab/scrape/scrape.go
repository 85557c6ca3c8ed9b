// Package scrape reads Prometheus endpoints: of agents and collectors what they say of
// themselves, of services how many requests they answered, and how fast. It refuses to
// guess: what an endpoint does not have is absent, and a quantile comes with the bucket
// that it lies in.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxBody bounds what is read of an endpoint's answer (bytes).
const MaxBody = 32 << 20

// Families are what an endpoint answers, by the names of the metrics.
type Families map[string]*dto.MetricFamily

// Once keeps no connection open, for who is asked a few times in a run.
var Once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Within}

// Within bounds an answer.
const Within = 10 * time.Second

// Open gets what is at a URL; another status than 200 is an error.
func Open(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", url, resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

// Get reads an endpoint, in Prometheus' text format.
func Get(ctx context.Context, client *http.Client, url string) (Families, error) {
	body, err := Open(ctx, client, url)
	if err != nil {
		return nil, err
	}
	families, err := Parse(io.LimitReader(body, MaxBody))
	return families, errors.Join(err, body.Close())
}

// Parse reads Prometheus' text format.
func Parse(r io.Reader) (Families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// ByLabel sums the values of a family by the value of one label.
func (f Families) ByLabel(name, label string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range f[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				values[l.GetValue()] += value(m)
			}
		}
	}
	return values
}

// Total sums a family over all labels; 0 if there is none.
func (f Families) Total(name string) (sum float64) {
	for _, m := range f[name].GetMetric() {
		sum += value(m)
	}
	return sum
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}
