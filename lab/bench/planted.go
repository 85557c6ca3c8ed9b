package bench

import (
	"github.com/tare-trace/tare/lab/record"
	"github.com/tare-trace/tare/workloads/planted"
)

// countPlanted looks for the values that were planted into the requests of this run, in all
// that the sink has received.
func (r *run) countPlanted(requests float64) error {
	f := planted.NewFinder(r.first, r.stage.next)
	err := r.stage.sink.Bodies(func(body []byte) error {
		f.Add(body)
		return nil
	})
	if err != nil {
		return err
	}
	counts := f.Counts()
	v := r.rec.Values
	v[record.PersonalData] = float64(counts.Bytes) / requests
	if counts.Requests == 0 { // no request was sampled
		return nil
	}
	r.rec.Planted = &record.Planted{Secrets: counts.Secrets, Places: counts.Places}
	secrets := planted.Total(counts.Secrets)
	v[record.SecretsStored] = float64(secrets.Stored) / float64(secrets.Planted)
	// What does not record a value has not taken it for a secret.
	if r.tracer.Facts(r.job.Variant.Tracer).Within {
		r.rec.Planted.Decoys = counts.Decoys
		decoys := planted.Total(counts.Decoys)
		v[record.DecoysChanged] = 1 - float64(decoys.Stored)/float64(decoys.Planted)
	}
	return nil
}
