// Package sdk finds out where an OpenTelemetry SDK in a process publishes, for readers outside
// of it, which span is current in each thread: a thread-local variable that it exports
// (OTEP 4947), and in the process's context (OTEP 4719) how that is to be read.
//
// It finds the place and reads no spans: the kernel side does. Of the process's context it wants
// one attribute. What Go and Node.js publish in ways of their own it refuses.
package sdk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tare-trace/tare/agent/runtime/native"
	"github.com/tare-trace/tare/agent/runtime/reading"
)

// ErrAbsent says that nothing is published in a process, which is most often so.
var ErrAbsent = errors.New("no SDK in it publishes its context")

const (
	variable   = "otel_thread_ctx_v1"
	signature  = "OTEL_CTX"
	schemaKey  = "threadlocal.schema_version"
	maxContext = 64 << 10 // bytes of a process's context
	tries      = 3        // to read one that changes
)

// Schemas are those in which the variable points to a record of the one layout that there is.
var schemas = []string{"tlsdesc_v1_dev", "tlsdesc_v1", "tls_v1_dev", "tls_v1"}

// Read finds the variable, by the directory of a process in the proc file system. The error is
// ErrAbsent, or says why it cannot be read.
func Read(dir string, a *reading.Account) (v native.Variable, err error) {
	p, err := native.Open(dir, a)
	if err != nil { // another architecture, or it has ended
		return v, errors.Join(ErrAbsent, err)
	}
	defer p.Close()
	modules, err := p.Exporting(variable)
	schema := contextOf(p)
	switch {
	case schema != "" && !slices.Contains(schemas, schema):
		return v, fmt.Errorf("its SDK publishes in the schema %.64q", schema)
	case err == nil && len(modules) == 0:
		return v, ErrAbsent
	}
	for i, m := range modules {
		found, failed := p.TLSVariable(m, variable)
		if err = errors.Join(err, failed); err != nil {
			return native.Variable{}, err
		}
		if i > 0 && !reflect.DeepEqual(v, found) {
			return native.Variable{}, fmt.Errorf("%s and %s publish each for itself", modules[0].Name, m.Name)
		}
		v = found
	}
	return v, errors.Join(err, p.Err())
}

// contextOf is the schema that the process's context names; "" if it has none.
func contextOf(p *native.Process) string {
	for _, name := range []string{"/memfd:" + signature, "[anon_shmem:" + signature, "[anon:" + signature} {
		for _, at := range p.Named(name) {
			if payload := readContext(p.Memory, at); payload != nil {
				return schemaOf(payload)
			}
		}
	}
	return ""
}

// readContext reads the context whose header is at an address; nil if there is none, or it changes
// all the time.
func readContext(m *native.Memory, at uint64) []byte {
	const version = 2 // 1 while it was being developed
	for range tries {
		head := m.Read(at, 32)
		if head == nil || string(head[:8]) != signature {
			return nil
		}
		if v := binary.LittleEndian.Uint32(head[8:]); v == 0 || v > version {
			return nil
		}
		size, published := uint64(binary.LittleEndian.Uint32(head[12:])), binary.LittleEndian.Uint64(head[16:])
		from := binary.LittleEndian.Uint64(head[24:])
		if size > maxContext {
			return nil
		}
		payload := make([]byte, 0, size)
		for left := size; left > 0; {
			n := min(left, 4096)
			b := m.Read(from+size-left, n)
			if b == nil {
				break
			}
			payload, left = append(payload, b...), left-n
		}
		head = bytes.Clone(head)
		m.Forget()
		if published != 0 && uint64(len(payload)) == size && bytes.Equal(m.Read(at, 32), head) {
			return payload
		}
	}
	return nil
}

// schemaOf finds the attribute: in a ProcessContext, beside its Resource, or as before in a Resource
// alone.
func schemaOf(context []byte) (schema string) {
	attribute := func(attribute []byte) {
		key := ""
		fields(attribute, 1, func(b []byte) { key = string(b) })
		if key != schemaKey {
			return
		}
		fields(attribute, 2, func(value []byte) {
			fields(value, 1, func(text []byte) { schema = string(text) })
		})
	}
	fields(context, 2, attribute)
	if schema == "" {
		fields(context, 1, attribute)
	}
	return schema
}

// fields calls each for the fields of a number that hold bytes, until the message cannot be read.
func fields(message []byte, number protowire.Number, each func([]byte)) {
	for len(message) > 0 {
		have, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if have == number && kind == protowire.BytesType {
			if b, n := protowire.ConsumeBytes(message); n >= 0 {
				each(b)
			}
		}
		if n = protowire.ConsumeFieldValue(have, kind, message); n < 0 {
			return
		}
		message = message[n:]
	}
}
