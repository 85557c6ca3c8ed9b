package demo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// maxBody bounds one OTLP request, before and after decompression.
const maxBody = 64 << 20

// sink receives OTLP over HTTP. It costs as little as a receiver can while
// something is measured: bodies are counted, or written to a file as they
// are; decoding comes afterwards.
type sink struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}

	keeping  atomic.Bool
	requests atomic.Uint64

	mu   sync.Mutex // guards the file
	file *os.File
	out  *bufio.Writer
	err  error // of the first write that failed
}

func newSink(path string) (*sink, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &sink{listener: listener, served: make(chan struct{}), file: file, out: bufio.NewWriterSize(file, 1<<20)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.receive)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener) // ends with close
	}()
	return s, nil
}

func (s *sink) endpoint() string { return "http://" + s.listener.Addr().String() }

// keep decides whether bodies are kept from now on, or only counted.
func (s *sink) keep(on bool) { s.keeping.Store(on) }

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	body := http.MaxBytesReader(w, r.Body, maxBody)
	if !s.keeping.Load() {
		_, err := io.Copy(io.Discard, body)
		s.answer(w, err)
		return
	}
	b, err := io.ReadAll(body)
	if err == nil {
		err = s.store(b, r.Header.Get("Content-Encoding") == "gzip")
	}
	s.answer(w, err)
}

// answer is an empty ExportTraceServiceResponse: all was accepted.
func (s *sink) answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.requests.Add(1)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

// A record of the file is the size (32 bits, little endian), one byte that is
// 1 if the body is compressed, and the body.
const recordHead = 5

func (s *sink) store(body []byte, zipped bool) error {
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(body))) //nolint:gosec // at most maxBody
	if zipped {
		head[4] = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = s.out.Write(head[:])
	}
	if s.err == nil {
		_, s.err = s.out.Write(body)
	}
	return s.err
}

// quiet waits until nothing has come for the given time, or at most as long
// as within.
func (s *sink) quiet(ctx context.Context, idle, within time.Duration) error {
	last, since, begin := s.requests.Load(), time.Now(), time.Now()
	for time.Since(since) < idle && time.Since(begin) < within {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if n := s.requests.Load(); n != last {
			last, since = n, time.Now()
		}
	}
	return nil
}

// each decodes what was kept, in the order of arrival.
func (s *sink) each(f func(*collector.ExportTraceServiceRequest) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.out.Flush()
	}
	if s.err != nil {
		return fmt.Errorf("received spans: %w", s.err)
	}
	size, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, size), 1<<20)
	for {
		body, err := readRecord(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil {
			return fmt.Errorf("received spans: %w", err)
		}
		if err := f(&req); err != nil {
			return err
		}
	}
}

// readRecord returns io.EOF at the end only.
func readRecord(in io.Reader) ([]byte, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	if head[4] == 0 {
		return body, nil
	}
	return unzip(body)
}

func (s *sink) close() error {
	err := s.server.Close()
	<-s.served
	return errors.Join(err, s.file.Close())
}
