package leanhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

// service is what the clients of the cases talk to.
func service(w *world) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/status/{code}", func(rw http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscan(r.PathValue("code"), &code); err != nil {
			panic(err)
		}
		rw.WriteHeader(code)
	})
	m.HandleFunc("/echo", func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) })
	m.HandleFunc("/redirect", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "/headers", http.StatusTemporaryRedirect)
	})
	m.HandleFunc("/headers", func(rw http.ResponseWriter, r *http.Request) {
		p := r.Header.Get("Traceparent")
		w.env.Note("%d traceparents of %d bytes, flags %.2s, tracestate %q, baggage %q, X-Own %q, user agent %q",
			len(r.Header["Traceparent"]), len(p), strings.TrimPrefix(p, p[:max(len(p)-2, 0)]), r.Header["Tracestate"], r.Header["Baggage"], r.Header["X-Own"], r.UserAgent())
	})
	m.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	m.HandleFunc("/cut", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "100")
		_, _ = fmt.Fprint(rw, "short")
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	m.HandleFunc("/hangup", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	m.HandleFunc("/upgrade", func(rw http.ResponseWriter, _ *http.Request) {
		c, b, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = fmt.Fprint(b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = b.Flush()
		_, _ = io.CopyN(c, b, 4)
	})
	return m
}

func TestClient(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	for name, change := range map[string]func(*httptest.Server){"HTTP/1": func(*httptest.Server) {}, "HTTP/2": http2} {
		equal(t, r, name, nil, options{}, func(w *world) {
			s := w.plainServer(service(w), change)
			c := w.client(s)
			defer c.CloseIdleConnections()
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "PURGE", "get"} {
				w.fetch(c, w.request(method, s.URL+"/echo?q=1#fragment", ""))
			}
			for _, code := range []int{200, 204, 304, 400, 404, 500, 503, 599, 600, 999} {
				w.fetch(c, w.request("GET", fmt.Sprint(s.URL, "/status/", code), ""))
			}
			for _, path := range []string{"/redirect", "/headers", "/cut", "/hangup", "/a%2Fb?c=d e"} {
				w.fetch(c, w.request("GET", s.URL+strings.ReplaceAll(path, " ", "+"), ""))
			}
			w.fetch(c, w.request("POST", s.URL+"/redirect", "body"))
			w.fetch(c, w.request("POST", s.URL+"/echo", strings.Repeat("x", 1<<20)))
			w.fetch(c, w.request("GET", strings.Replace(s.URL, "://", "://user:secret@", 1)+"/headers", ""))
			req := w.request("GET", s.URL+"/headers", "")
			req.Header["X-Own"] = []string{"a", "b"}
			req.Header.Set("User-Agent", "agent")
			req.Header.Set("Traceparent", "to be replaced")
			req.Host = "other:99"
			w.fetch(c, req)
		})
	}
	equal(t, r, "errors", nil, options{}, func(w *world) {
		s := w.plainServer(service(w))
		c := w.client(s)
		defer c.CloseIdleConnections()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.Fatal(err)
		}
		l.Close()
		w.fetch(c, w.request("GET", "http://"+l.Addr().String(), "")) // refused
		w.fetch(c, w.request("GET", "http://[::1]:1/", ""))
		w.fetch(c, w.request("GET", "unknown://x/", ""))
		w.fetch(c, w.request("GET", strings.Replace(s.URL, "http:", "https:", 1), ""))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.fetch(c, w.request("GET", s.URL+"/slow", "").WithContext(ctx))
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
		w.fetch(c, w.request("GET", s.URL+"/slow", "").WithContext(ctx))
		cancel()
	})
	equal(t, r, "bodies", nil, options{}, func(w *world) {
		s := w.plainServer(service(w))
		c := w.client(s)
		defer c.CloseIdleConnections()
		res, err := c.Do(w.request("POST", s.URL+"/echo", "some text"))
		if err != nil {
			w.Fatal(err)
		}
		_, err = io.ReadFull(res.Body, make([]byte, 3))
		_, writes := res.Body.(io.Writer)
		w.env.Note("%v, writes %v, close %v, close %v", err, writes, res.Body.Close(), res.Body.Close())

		req := w.request("GET", s.URL+"/upgrade", "")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		if res, err = c.Do(req); err != nil {
			w.Fatal(err)
		}
		_, err = res.Body.(io.Writer).Write([]byte("ping"))
		b, err2 := io.ReadAll(res.Body)
		w.env.Note("%q %v, close %v", b, errors.Join(err, err2), res.Body.Close())
		_, err = res.Body.(io.Writer).Write([]byte("ping"))
		w.env.Note("after close: %v", err != nil)
	})
	equal(t, r, "the caller's request", nil, options{}, func(w *world) {
		s := w.plainServer(service(w))
		c := w.client(s)
		defer c.CloseIdleConnections()
		req := w.request("GET", strings.Replace(s.URL, "://", "://user:secret@", 1)+"/headers", "")
		req.Header.Set("X-Own", "a")
		before := fmt.Sprint(req.Header, req.URL)
		w.fetch(c, req)
		if after := fmt.Sprint(req.Header, req.URL); after != before {
			w.Errorf("was %s, is %s", before, after)
		}
	})
}

// answers is a RoundTripper that does not need a network.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type namedError struct{}

func (namedError) Error() string     { return "named" }
func (namedError) ErrorType() string { return "my.type" }

func TestClientOfOtherTransports(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	fine := answers(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", Body: io.NopCloser(strings.NewReader("x")), Request: r}, nil
	})
	failing := func(err error) answers { return func(*http.Request) (*http.Response, error) { return nil, err } }
	for name, base := range map[string]answers{
		"fine":        fine,
		"plain error": failing(errors.New("plain")),
		"wrapped":     failing(fmt.Errorf("a: %w", fmt.Errorf("b: %w", io.EOF))),
		"joined":      failing(errors.Join(io.EOF, io.ErrUnexpectedEOF)),
		"named":       failing(fmt.Errorf("a: %w", namedError{})),
		"struct":      failing(struct{ error }{io.EOF}),
		"timeout":     failing(context.DeadlineExceeded),
		"no body": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 204}, nil
		},
		"odd protocol": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 0, Proto: "SPDY/3", Body: http.NoBody}, nil
		},
		"HTTP/3": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Proto: "HTTP/3.0", Body: http.NoBody}, nil
		},
		"failing body": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(strings.NewReader("x"), failingReader{}))}, nil
		},
	} {
		equal(t, r, name, nil, options{}, func(w *world) {
			c := &http.Client{Transport: w.with.transport(base, w.env.TracerProvider, w.opts)}
			for _, url := range []string{"http://example.com", "http://example.com:80/", "https://example.com:443/", "https://example.com:80/", "http://example.com:443/x", "https://[::1]:8443/"} {
				w.fetch(c, w.request("GET", url, ""))
			}
			req := w.request("GET", "http://example.com", "")
			req.Method, req.Proto = "", "QUIC/1"
			w.fetch(c, req)
			req.URL.Host = ""
			req.Header.Set("Host", "by.header:81")
			res, err := c.Transport.RoundTrip(req)
			if err == nil {
				w.env.Note("%v", res.Body.Close())
			}
		})
	}
	// Two more that have no meaning for http.Client.
	for name, base := range map[string]answers{
		"nothing":             func(*http.Request) (*http.Response, error) { return nil, nil },
		"length without body": func(*http.Request) (*http.Response, error) { return &http.Response{ContentLength: 1}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			res, err := ours.transport(base, sdktrace.NewTracerProvider(), options{}).RoundTrip(httptest.NewRequest("GET", "http://x/", nil))
			assert.Error(t, err, "%v", res)
		})
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestClientOptions(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	visit := func(w *world) {
		s := w.server(service(w))
		c := w.client(s)
		defer c.CloseIdleConnections()
		root := context.Background()
		member, err := baggage.NewMember("a", "b")
		if err != nil {
			w.Fatal(err)
		}
		bag, err := baggage.New(member)
		if err != nil {
			w.Fatal(err)
		}
		remote := func(flags trace.TraceFlags, state string) context.Context {
			ts, err := trace.ParseTraceState(state)
			if err != nil {
				w.Fatal(err)
			}
			return trace.ContextWithRemoteSpanContext(root, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, TraceState: ts}))
		}
		local, span := w.env.Tracer("local").Start(root, "local")
		for _, ctx := range []context.Context{root, baggage.ContextWithBaggage(root, bag), remote(0, ""), remote(1, "foo=1"), remote(2, "ot=rv:00000000000001"), local} {
			w.fetch(c, w.request("GET", s.URL+"/headers", "").WithContext(ctx))
			w.fetch(c, w.request("GET", s.URL+"/status/500", "").WithContext(ctx))
		}
		span.End()
	}
	for title, o := range map[string]options{
		"default":      {},
		"formatter":    {formatter: func(operation string, r *http.Request) string { return operation + "|" + r.Method }},
		"filter":       {filter: func(r *http.Request) bool { return r.URL.Path == "/headers" }},
		"span options": {span: []trace.SpanStartOption{trace.WithAttributes(attribute.String("own", "x"), attribute.String("url.full", "mine"))}},
		"new root":     {span: []trace.SpanStartOption{trace.WithNewRoot()}},
	} {
		equal(t, r, title, nil, o, visit)
	}
	for title, sampler := range map[string]sdktrace.Sampler{
		"never":            sdktrace.NeverSample(),
		"parent based":     sdktrace.ParentBased(sdktrace.NeverSample()),
		"reads attributes": readsAttributes{},
	} {
		equal(t, r, "sampler "+title, func(*equality.Env) equality.Options { return equality.Options{Sampler: sampler} }, options{}, visit)
	}
}

// A transport hands on what http.Client asks of it.
func TestTransportClosesIdleConnections(t *testing.T) {
	closed := false
	c := http.Client{Transport: ours.transport(closer{func() { closed = true }}, sdktrace.NewTracerProvider(), options{})}
	c.CloseIdleConnections()
	assert.True(t, closed, "the transport underneath was not told")
}

type closer struct{ f func() }

func (c closer) CloseIdleConnections()                         { c.f() }
func (closer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("unused") }
