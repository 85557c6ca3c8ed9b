package diagnose

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tare-trace/tare/internal/cli"
	"github.com/tare-trace/tare/store"
)

// load writes the spans of an OTLP file to the store, which joins those of one trace.
func load(ctx context.Context, s *store.Store, name string, in io.Reader) error {
	f, err := cli.Input(name, in)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	spans := 0
	err = read(f, func(td ptrace.Traces) error {
		spans += td.SpanCount()
		return s.Write(ctx, td)
	})
	if err == nil && spans == 0 {
		err = errors.New("it has no spans")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read reads OTLP: JSON objects one after the other, or else one protobuf message.
func read(in io.Reader, take func(ptrace.Traces) error) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	first, _ := buffered.Peek(64)
	// A message of protobuf begins with a newline, and with a brace behind it if its
	// first resource has 123 bytes.
	inside, isObject := bytes.CutPrefix(bytes.TrimSpace(first), []byte("{"))
	inside = bytes.TrimSpace(inside)
	if !isObject || len(inside) > 0 && inside[0] != '"' && inside[0] != '}' {
		b, err := io.ReadAll(buffered)
		if err != nil {
			return err
		}
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		if err != nil {
			return fmt.Errorf("neither OTLP as JSON nor as protobuf: %w", err)
		}
		return take(td)
	}
	objects := json.NewDecoder(buffered)
	for n := 1; ; n++ {
		var object json.RawMessage
		err := objects.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("object %d: %w", n, err)
		}
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(object)
		if err != nil {
			return fmt.Errorf("object %d is not OTLP: %w", n, err)
		}
		if err := take(td); err != nil {
			return err
		}
	}
}
