package otlpwire

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Receivers answer in the encoding of the request, which is protobuf here; the
// JSON forms are read because some gateways answer in JSON whatever they got,
// and the official exporter understands them.

// DecodeResponseJSON is [DecodeResponse] for the JSON encoding.
func DecodeResponseJSON(data []byte, spans int) (PartialSuccess, error) {
	var response struct {
		PartialSuccess struct {
			RejectedSpans int64String `json:"rejectedSpans"`
			ErrorMessage  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return PartialSuccess{}, fmt.Errorf("the response is not an ExportTraceServiceResponse in JSON: %w", err)
	}
	partial := response.PartialSuccess
	return PartialSuccess{
		Rejected: clamp(int64(partial.RejectedSpans), spans),
		Message:  Text([]byte(partial.ErrorMessage)),
	}, nil
}

// DecodeStatusJSON is [DecodeStatus] for the JSON encoding.
func DecodeStatusJSON(data []byte) (message string, err error) {
	var status struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(data, &status); err != nil {
		return "", fmt.Errorf("the response is not a google.rpc.Status in JSON: %w", err)
	}
	return Text([]byte(status.Message)), nil
}

// int64String: JSON's protobuf mapping writes an int64 as a string and accepts
// a number, too.
type int64String int64

func (n *int64String) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	v, err := strconv.ParseInt(text, 10, 64)
	*n = int64String(v)
	return err
}
