package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DecodeStrict decodes one JSON value and refuses unknown fields and anything
// after the value: a setting that no code reads is an error.
// Where the error has a place, it is named by line and column.
func DecodeStrict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return located(err, text)
	}
	end := d.InputOffset()
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%s: there is more text behind the JSON value", place(text, end))
	}
	return nil
}

func located(err error, text []byte) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %w", place(text, syntax.Offset-1), err)
	case errors.As(err, &typ):
		return fmt.Errorf("%s: %w", place(text, typ.Offset-1), err)
	case err == io.EOF:
		return errors.New("there is no JSON text")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the JSON text ends too early", place(text, int64(len(text))))
	}
	return err
}

// place returns the line and column, both from 1, of a byte.
func place(text []byte, offset int64) string {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
