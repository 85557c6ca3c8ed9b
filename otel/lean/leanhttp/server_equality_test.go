package leanhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tare-trace/tare/otel/lean/internal/equality"
)

const (
	parent    = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func http2(s *httptest.Server) { s.EnableHTTP2 = true }

// raw sends text to s as it is, and notes the status line.
func (w *world) raw(s *httptest.Server, text string) {
	w.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		w.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	w.env.Note("%q %v", line, err)
	_, _ = io.Copy(io.Discard, c) // until the server closes
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") }

func TestServerRequests(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(b)
	})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PURGE", "get", "Post", "x"} {
		equal(t, r, method, nil, options{}, func(w *world) {
			s := w.server(echo)
			w.fetch(s.Client(), w.request(method, s.URL+"/a/b?c=d", ""))
			if method != "TRACE" && method != "HEAD" {
				w.fetch(s.Client(), w.request(method, s.URL+"/a%2Fb", "body"))
			}
			w.fetch(s.Client(), w.request(method, s.URL, ""))
		})
	}
	for name, change := range map[string]func(*httptest.Server){"HTTP/1": func(*httptest.Server) {}, "TLS": func(s *httptest.Server) { s.TLS = new(tls.Config) }, "HTTP/2": http2} {
		equal(t, r, name, nil, options{}, func(w *world) {
			s := w.server(echo, change)
			w.fetch(s.Client(), w.request("POST", s.URL+"/big", strings.Repeat("x", 1<<20)))
			w.fetch(s.Client(), w.request("GET", s.URL+"/none", ""))
		})
	}
	for name, text := range map[string]string{
		"HTTP/1.0":               "GET /old HTTP/1.0\r\n\r\n",
		"HTTP/1.0 with a host":   "GET /old HTTP/1.0\r\nHost: h:8080\r\n\r\n",
		"host":                   "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
		"host, port":             "GET / HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n",
		"host, usual port":       "GET / HTTP/1.1\r\nHost: example.com:80\r\nConnection: close\r\n\r\n",
		"host, port of TLS":      "GET / HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n",
		"host, port 0":           "GET / HTTP/1.1\r\nHost: example.com:0\r\nConnection: close\r\n\r\n",
		"host, no number":        "GET / HTTP/1.1\r\nHost: example.com:http\r\nConnection: close\r\n\r\n",
		"host, large port":       "GET / HTTP/1.1\r\nHost: example.com:65536\r\nConnection: close\r\n\r\n",
		"host, empty port":       "GET / HTTP/1.1\r\nHost: example.com:\r\nConnection: close\r\n\r\n",
		"host, colons":           "GET / HTTP/1.1\r\nHost: a:b:c\r\nConnection: close\r\n\r\n",
		"host empty":             "GET / HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n",
		"IPv6":                   "GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
		"IPv6, port":             "GET / HTTP/1.1\r\nHost: [::1]:81\r\nConnection: close\r\n\r\n",
		"IPv6, zone":             "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]:81\r\nConnection: close\r\n\r\n",
		"IPv6, open":             "GET / HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n",
		"absolute target":        "GET http://other:99/path?q HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
		"asterisk":               "OPTIONS * HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
		"no user agent":          "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent:\r\nConnection: close\r\n\r\n",
		"two user agents":        "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\r\nUser-Agent: b\r\nConnection: close\r\n\r\n",
		"forwarded":              "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.0.0.1\r\nConnection: close\r\n\r\n",
		"forwarded, list":        "GET / HTTP/1.1\r\nHost: x\r\nx-forwarded-for: 10.0.0.1, 10.0.0.2\r\nConnection: close\r\n\r\n",
		"forwarded, empty first": "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ,10.0.0.2\r\nConnection: close\r\n\r\n",
		"forwarded, twice":       "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: a\r\nX-Forwarded-For: b\r\nConnection: close\r\n\r\n",
		"chunked":                "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"expect":                 "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nabc",
		"cut short":              "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\nzz\r\n",
	} {
		equal(t, r, name, nil, options{}, func(w *world) { w.raw(w.server(echo), text) })
		equal(t, r, name+", server name", nil, options{server: "name"}, func(w *world) { w.raw(w.server(echo), text) })
		equal(t, r, name+", server name and port", nil, options{server: "name:8443"}, func(w *world) { w.raw(w.server(echo), text) })
	}
	equal(t, r, "IPv6 peer", nil, options{}, func(w *world) {
		l, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			t.Skipf("no IPv6 on the loopback: %v", err)
		}
		s := w.server(echo, func(s *httptest.Server) { s.Listener.Close(); s.Listener = l })
		w.fetch(s.Client(), w.request("GET", s.URL, ""))
	})
}

func TestServerResponses(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	cases := map[string]http.HandlerFunc{
		"nothing":             func(http.ResponseWriter, *http.Request) {},
		"headers, then write": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); _, _ = fmt.Fprint(w, "abc") },
		"two headers":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(500) },
		"header after write":  func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "abc"); w.WriteHeader(500) },
		"early hints":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(404) },
		"only early hints":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) },
		"WriteString": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "abc")
			_, _ = io.WriteString(w, "def")
		},
		"ReadFrom": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("abc")) },
		"ReadFrom and Write": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(strings.NewReader("abc"), 2))
			_, _ = fmt.Fprint(w, "defg")
		},
		"streaming": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				_, _ = fmt.Fprint(w, "chunk")
				w.(http.Flusher).Flush()
			}
		},
		"flush, then header": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) },
		"controller": func(w http.ResponseWriter, _ *http.Request) {
			c := http.NewResponseController(w)
			if err := errors.Join(c.SetReadDeadline(time.Now().Add(time.Minute)), c.SetWriteDeadline(time.Now().Add(time.Minute)), c.EnableFullDuplex(), c.Flush()); err != nil {
				_, _ = fmt.Fprint(w, err)
			}
			w.WriteHeader(500)
		},
		"body to a 204":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); _, _ = fmt.Fprint(w, "abc") },
		"large":             func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"panic with text":   func(http.ResponseWriter, *http.Request) { panic("oops") },
		"panic with error":  func(http.ResponseWriter, *http.Request) { panic(fmt.Errorf("wrapped: %w", os.ErrNotExist)) },
		"panic with struct": func(http.ResponseWriter, *http.Request) { panic(struct{ A int }{7}) },
		"abort":             func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panic after write": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "abc"); panic("oops") },
		"reads half":        func(w http.ResponseWriter, r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 2)) },
		"other reader":      func(_ http.ResponseWriter, r *http.Request) { r.Body = http.NoBody; _, _ = io.ReadAll(r.Body) },
		"bodies compare": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, r.Body == nil, r.Body == http.NoBody, r.GetBody == nil)
		},
		"pattern by a middleware": func(_ http.ResponseWriter, r *http.Request) { r.Pattern = "GET example.com/a/{b}" },
		"pattern without a path":  func(_ http.ResponseWriter, r *http.Request) { r.Pattern = "a" },
		"the handler's span": func(w http.ResponseWriter, r *http.Request) {
			s := trace.SpanFromContext(r.Context())
			s.SetAttributes(attribute.String("own", "value"), attribute.Int("http.response.status_code", 1))
			s.AddEvent("event", trace.WithAttributes(attribute.Bool("b", true)))
			s.SetStatus(codes.Ok, "")
			s.RecordError(io.ErrUnexpectedEOF)
			w.WriteHeader(500)
		},
		"a child": func(_ http.ResponseWriter, r *http.Request) {
			s := trace.SpanFromContext(r.Context())
			_, c := s.TracerProvider().Tracer("child").Start(r.Context(), "child")
			c.End()
		},
		"timeout handler": http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "late").ServeHTTP,
		"multipart": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, r.ParseMultipartForm(1), r.MultipartForm != nil)
		},
	}
	for _, code := range []int{200, 204, 304, 400, 404, 499, 500, 503, 599, 600, 999} {
		cases[fmt.Sprint(code)] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, h := range cases {
		for proto, change := range map[string]func(*httptest.Server){"HTTP/1": func(*httptest.Server) {}, "HTTP/2": http2} {
			equal(t, r, name+" "+proto, nil, options{events: name == "streaming"}, func(w *world) {
				s := w.server(h, change)
				w.fetch(s.Client(), w.request("GET", s.URL+"/", ""))
				w.fetch(s.Client(), w.request("POST", s.URL+"/", "some text"))
			})
		}
		// A middleware outside has a writer of its own.
		equal(t, r, name+" wrapped", nil, options{}, func(w *world) {
			inner := w.with.handler(h, w.env.TracerProvider, w.opts)
			s := w.plainServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				inner.ServeHTTP(struct {
					http.ResponseWriter
					http.Flusher
				}{rw, rw.(http.Flusher)}, r)
			}))
			w.fetch(s.Client(), w.request("POST", s.URL+"/", "some text"))
		})
	}
	equal(t, r, "switching protocols", nil, options{}, func(w *world) {
		w.raw(w.server(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			c, b, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprint(b, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_ = b.Flush()
			c.Close()
		})), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	})
	equal(t, r, "101 by WriteHeader", nil, options{}, func(w *world) {
		w.raw(w.server(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(101) })), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	})
}

// net/http removes the files of a form that it finds in its own request.
func TestMultipartFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := equality.NewReceiver()
	defer r.Close()
	for name, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "unsampled": sdktrace.NeverSample()} {
		equal(t, r, name, func(*equality.Env) equality.Options { return equality.Options{Sampler: sampler} }, options{}, func(w *world) {
			var files int
			s := w.server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if err := r.ParseMultipartForm(1); err != nil {
					w.Error(err)
				}
				m, _ := filepath.Glob(dir + "/multipart-*")
				files = len(m)
				panic("the form must be handed on nevertheless")
			}), http2) // HTTP/2 removes the files even then
			var body bytes.Buffer
			m := multipart.NewWriter(&body)
			f, err := m.CreateFormFile("f", "f")
			if err == nil {
				_, err = f.Write(make([]byte, 11<<20)) // ParseMultipartForm adds 10 MB to its limit
			}
			if err = errors.Join(err, m.Close()); err != nil {
				w.Fatal(err)
			}
			req := w.request("POST", s.URL, body.String())
			req.Header.Set("Content-Type", m.FormDataContentType())
			w.fetch(s.Client(), req)
			s.Close()
			w.busy.Wait()
			left, _ := filepath.Glob(dir + "/multipart-*")
			if files != 1 || len(left) != 0 {
				w.Errorf("%d files during the request, %v after it", files, left)
			}
		})
	}
}

func TestServerOptions(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	mux := func() *http.ServeMux {
		m := http.NewServeMux()
		m.HandleFunc("GET /users/{id}", ok)
		m.HandleFunc("/static/", ok)
		m.HandleFunc("example.com/hosted", ok)
		m.HandleFunc("POST example.com/hosted/{rest...}", ok)
		return m
	}
	visit := func(w *world, s *httptest.Server) {
		for _, target := range []string{"GET /users/7", "HEAD /users/7", "PURGE /static/a", "GET /hosted", "POST /hosted/x/y", "GET /nowhere", "POST /users/7", "GET /users/../static/x"} {
			method, path, _ := strings.Cut(target, " ")
			for _, headers := range [][]string{nil, {"traceparent", parent}, {"traceparent", unsampled}, {"traceparent", "nonsense"},
				{"traceparent", parent, "tracestate", "ot=th:8,foo=1"}, {"tracestate", "foo=1"}, {"baggage", "a=b,c=d"}, {"traceparent", parent, "baggage", "a=b"}} {
				req := w.request(method, s.URL+path, "")
				req.Host = "example.com"
				for i := 0; i < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				w.fetch(s.Client(), req)
			}
		}
	}
	name := func(operation string, r *http.Request) string { return operation + "|" + r.Method + "|" + r.Pattern }
	yes := func(*http.Request) bool { return true }
	bySpan := func(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsSampled() }
	link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}), Attributes: []attribute.KeyValue{attribute.Int("i", 1)}}
	for title, o := range map[string]options{
		"default":        {},
		"formatter":      {formatter: name},
		"public":         {public: yes},
		"public by span": {public: bySpan},
		"filter":         {filter: func(r *http.Request) bool { return r.URL.Path != "/hosted" }},
		"events":         {events: true},
		"span options":   {span: []trace.SpanStartOption{trace.WithAttributes(attribute.String("own", "x"), attribute.String("url.path", "mine")), trace.WithLinks(link)}},
		"kind":           {span: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}},
		"new root":       {span: []trace.SpanStartOption{trace.WithNewRoot()}},
		"time":           {span: []trace.SpanStartOption{trace.WithTimestamp(equality.At(time.Second))}},
		"public, links":  {public: yes, span: []trace.SpanStartOption{trace.WithLinks(link)}},
	} {
		equal(t, r, title, nil, o, func(w *world) { visit(w, w.server(mux())) })
	}
	for title, sampler := range map[string]sdktrace.Sampler{
		"never":            sdktrace.NeverSample(),
		"ratio 0":          sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0)),
		"ratio 1":          sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1)),
		"against parents":  sdktrace.ParentBased(sdktrace.NeverSample(), sdktrace.WithRemoteParentSampled(sdktrace.NeverSample()), sdktrace.WithRemoteParentNotSampled(sdktrace.AlwaysSample())),
		"reads attributes": readsAttributes{},
	} {
		equal(t, r, "sampler "+title, func(*equality.Env) equality.Options { return equality.Options{Sampler: sampler} }, options{span: []trace.SpanStartOption{trace.WithAttributes(attribute.String("own", "x"))}},
			func(w *world) { visit(w, w.server(mux())) })
	}
	equal(t, r, "mux outside", nil, options{}, func(w *world) {
		m := http.NewServeMux()
		m.Handle("GET /users/{id}", w.with.handler(http.HandlerFunc(ok), w.env.TracerProvider, w.opts))
		m.Handle("/", w.with.handler(mux(), w.env.TracerProvider, w.opts))
		visit(w, w.plainServer(m))
	})
	equal(t, r, "start time", nil, options{}, func(w *world) {
		inner := w.with.handler(mux(), w.env.TracerProvider, w.opts)
		visit(w, w.plainServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(rw, r.WithContext(w.with.startTime(r.Context(), equality.At(0))))
		})))
	})
	equal(t, r, "twice", nil, options{}, func(w *world) {
		visit(w, w.server(w.with.handler(mux(), w.env.TracerProvider, w.opts)))
	})
	equal(t, r, "provider from the context", nil, options{}, func(w *world) {
		inner := w.with.handler(http.HandlerFunc(ok), nil, w.opts)
		visit(w, w.plainServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ctx, span := w.env.Tracer("outer").Start(r.Context(), "outer")
			defer span.End()
			inner.ServeHTTP(rw, r.WithContext(ctx))
		})))
	})
	equal(t, r, "context of the handler", nil, options{}, func(w *world) {
		visit(w, w.server(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			sc := trace.SpanContextFromContext(r.Context())
			b := baggage.FromContext(r.Context())
			w.env.Note("sampled %v, remote %v, state %q, recording %v, baggage %q", sc.IsSampled(), sc.IsRemote(), sc.TraceState(), trace.SpanFromContext(r.Context()).IsRecording(), b.Member("a"))
			if sc.TraceID().String() == parent[3:35] {
				w.env.Note("the caller's trace")
			}
		})))
	})
}

// readsAttributes samples by attributes, and adds some.
type readsAttributes struct{}

func (readsAttributes) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	d := sdktrace.Drop
	var path string
	for _, kv := range p.Attributes {
		if kv.Key == "url.path" {
			path = kv.Value.AsString()
		}
	}
	if strings.HasPrefix(path, "/users") {
		d = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: d, Attributes: []attribute.KeyValue{attribute.String("sampler.saw", path), attribute.Int("sampler.saw.n", len(p.Attributes))}}
}

func (readsAttributes) Description() string { return "readsAttributes" }

// A handler's request is a copy; the context of the server's stays.
func TestServerRequestIsLeftAlone(t *testing.T) {
	r := equality.NewReceiver()
	defer r.Close()
	equal(t, r, "left alone", nil, options{}, func(w *world) {
		inner := w.with.handler(http.HandlerFunc(ok), w.env.TracerProvider, w.opts)
		s := w.plainServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, ctx := r.Body, r.Context()
			inner.ServeHTTP(rw, r)
			if r.Body != body || r.Context() != ctx {
				w.Error("the server's request was changed")
			}
		}))
		w.fetch(s.Client(), w.request("POST", s.URL, "abc").WithContext(context.Background()))
	})
}
