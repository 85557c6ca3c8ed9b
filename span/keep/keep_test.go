package keep_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/keep"
)

const id = "4bf92f3577b34da6a3ce929d0e0e4736"

func TestRoundTrip(t *testing.T) {
	want := keep.Request{
		Instance: "a", After: &keep.Position{Epoch: 1764523613000001, N: 7}, Wait: 10000,
		Keeps: []keep.Keep{{TraceID: span.TraceID{1}, Service: "shop", Reason: keep.Error, Time: time.Unix(5, 123456789).UTC()}, {TraceID: span.TraceID{15: 1}, Reason: keep.Open}},
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keep.Decode(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v of %s", got, err, b)
	}
	got, err := keep.DecodeKeep([]byte(`{"trace_id": "` + id + `", "service": "shop"}`))
	if err != nil || got.TraceID.String() != id || got.Service != "shop" || got.Reason != keep.Outside {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBounds(t *testing.T) {
	long, one := strings.Repeat("x", 1000), `{"trace_id": "`+id+`", "reason": "error"}`
	for body, want := range map[string]string{
		`{`:                                     "not a request in JSON",
		`{"instance": "a"} {}`:                  "not a request in JSON",
		`{"instance": 1}`:                       "instance",
		`{}`:                                    "instance has 0 bytes",
		`{"instance":"` + long + `"}`:           "instance has 1000 bytes",
		`{"instance": "a", "wait": -1}`:         "wait is -1",
		`{"instance": "a", "after": {"n": -1}}`: "after.n",
		`{"instance": "a", "keeps": [{}]}`:      "trace_id",
		`{"instance": "a", "keeps": [{"trace_id": "` + id + `"}]}`:                                 "keep 1: reason",
		`{"instance": "a", "keeps": [{"trace_id": "` + id + `00", "reason": "error"}]}`:            "32 hexadecimal digits",
		`{"instance": "a", "keeps": [{"trace_id": "` + strings.Repeat("0", 32) + `"}]}`:            "not all 0",
		`{"instance": "a", "keeps": [` + one + `, {"trace_id": "` + id + `", "reason": "bored"}]}`: "keep 2",
		`{"instance": "a", "keeps": [` + strings.Repeat(one+",", keep.MaxKeeps) + one + `]}`:       "1001 keeps",
	} {
		if _, err := keep.Decode([]byte(body)); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.100s: %v, want %q", body, err, want)
		}
	}
	r, err := keep.Decode([]byte(`{"instance": "a", "wait": 99999999, "unknown": 1, "keeps": [{"trace_id": "` + id + `", "reason": "error", "service": "` + long + `"}]}`))
	if err != nil || r.Wait != 10000 || r.After != nil || len(r.Keeps[0].Service) > keep.MaxService {
		t.Errorf("%+v, %v", r, err)
	}
	for _, body := range []string{`null`, `{}`, `[]`, ``, `{"trace_id": "x"}`} {
		if _, err := keep.DecodeKeep([]byte(body)); err == nil || !strings.Contains(err.Error(), "trace_id") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// What is decoded is within the bounds, and is the same after it was encoded.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"instance": "a", "after": {"epoch": 1, "n": 2}, "wait": 3, "keeps": [{"trace_id": "` + id + `", "service": "s", "reason": "slow", "time": "2026-11-30T12:00:00.5+01:00"}]}`))
	f.Add([]byte(`{"instance": "a", "keeps": [null]}`))
	f.Add([]byte(`{"instance": "\ud800", "after": null, "keeps": null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = keep.DecodeKeep(body)
		r, err := keep.Decode(body)
		if err != nil {
			return
		}
		if r.Instance == "" || len(r.Instance) > keep.MaxInstance || len(r.Keeps) > keep.MaxKeeps || r.Wait < 0 || time.Duration(r.Wait)*time.Millisecond > keep.MaxWait {
			t.Errorf("%+v", r)
		}
		for _, k := range r.Keeps {
			if k.TraceID.IsZero() || !k.Reason.Valid() || len(k.Service) > keep.MaxService {
				t.Errorf("%+v", k)
			}
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := keep.Decode(b)
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if b2, err := json.Marshal(again); err != nil || string(b2) != string(b) {
			t.Errorf("%s, then %s, %v", b, b2, err)
		}
	})
}
