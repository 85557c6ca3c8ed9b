package integration

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //nolint:staticcheck // deprecated, and in programs that people run
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// goServiceEnv makes the test binary a service in Go at an address. What it asks is
// in NEXT, REDIS, MEMCACHED and POSTGRES (the first an address, the others ports). In
// GET /way/5 the way says how it asks and what, and each message that it sends
// repeats the number. With CERTIFICATE and KEY, it listens at TLS, too; with HTTP2, a
// package that has it, at HTTP/2 without TLS. With FORWARD, such a package, it
// passes all requests on over HTTP/2.
const goServiceEnv = "TARE_TEST_GO_SERVICE"

// pooled is how many connections a service has to each database before its first
// request: what is said when one is opened belongs to no request.
const pooled = 16

type goService struct {
	next, nextTLS string // URLs
	client        *http.Client
	timed         *http.Client // with a limit of time
	queued        *http.Client // whose requests wait for one of a few connections
	forward       *http.Client // over HTTP/2
	proxy         *httputil.ReverseProxy
	redis         *redis.Client
	memcached     *memcache.Client
	db            *sql.DB

	shared singleflight.Group

	jobs   chan goJob // for workers that were there before the first request
	lazy   sync.Once
	nobody chan goJob // for workers that a request has started, and who get no context
	begin  sync.Once
	begun  chan goJob // for workers that a request has started

	mu   sync.Mutex
	kept []*goKept
}

// goJob is what a worker does for a request.
type goJob struct {
	ctx  context.Context
	key  string
	done chan error
}

// goKept is a goroutine that has outlived its request, once that was answered.
type goKept struct{ release, done chan struct{} }

func goServe(listen string) {
	if err := newGoService().serve(listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func newGoService() *goService {
	s := &goService{
		next: "http://" + os.Getenv("NEXT"),
		jobs: make(chan goJob), nobody: make(chan goJob), begun: make(chan goJob),
	}
	if addr := os.Getenv("NEXT_TLS"); addr != "" {
		s.nextTLS = "https://" + addr
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 2048, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // made for this test
	}
	s.client = &http.Client{Transport: transport}
	switch os.Getenv("FORWARD") {
	case "net/http":
		s.forward = &http.Client{Transport: &http.Transport{Protocols: http2Only()}}
	case "x/net":
		s.forward = &http.Client{Transport: &http2.Transport{AllowHTTP: true, //nolint:staticcheck // likewise
			DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}}
	}
	s.timed = &http.Client{Transport: transport, Timeout: time.Minute}
	s.queued = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 4, MaxIdleConnsPerHost: 4}}
	s.proxy = &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: os.Getenv("NEXT")})
	}}
	if port := os.Getenv("REDIS"); port != "" {
		s.redis = redis.NewClient(&redis.Options{
			Addr: net.JoinHostPort("127.0.0.1", port), PoolSize: pooled, MinIdleConns: pooled, ConnMaxIdleTime: -1,
			PoolTimeout: time.Minute, DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		})
	}
	if port := os.Getenv("MEMCACHED"); port != "" {
		s.memcached = memcache.New(net.JoinHostPort("127.0.0.1", port))
		s.memcached.Timeout, s.memcached.MaxIdleConns = time.Minute, 2048
	}
	if port := os.Getenv("POSTGRES"); port != "" {
		s.db = openPostgres(port)
	}
	return s
}

func openPostgres(port string) *sql.DB {
	c, err := pgx.ParseConfig("postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable")
	if err != nil {
		panic(err)
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // one message for a query
	db := stdlib.OpenDB(*c, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	db.SetMaxOpenConns(pooled)
	db.SetMaxIdleConns(pooled)
	return db
}

// ownCalls asks all n times at each SIGUSR1, about numbers that go on: for no request.
func (s *goService) ownCalls(n int) {
	due := make(chan os.Signal, 1)
	signal.Notify(due, syscall.SIGUSR1)
	for done := 0; ; {
		<-due
		for range n {
			err := s.ask(context.Background(), s.client, s.next+"/n/"+strconv.Itoa(done))
			if s.redis != nil {
				err = errors.Join(err, s.askRedis(context.Background(), key("n", done)), s.askMemcached(key("n", done)))
			}
			if err != nil {
				panic(err)
			}
			done++
		}
		fmt.Println("jobs done:", done)
	}
}

// fill opens all connections to the databases.
func (s *goService) fill(ctx context.Context) error {
	for range pooled {
		if s.redis != nil {
			c := s.redis.Conn()
			defer func() { _ = c.Close() }()
			if err := c.Ping(ctx).Err(); err != nil {
				return err
			}
		}
		if s.db != nil {
			c, err := s.db.Conn(ctx)
			for ; err != nil && ctx.Err() == nil; c, err = s.db.Conn(ctx) { // it may be starting
				time.Sleep(20 * time.Millisecond)
			}
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
		}
	}
	return nil
}

func (s *goService) serve(listen string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.fill(ctx); err != nil {
		return err
	}
	for range pooled {
		go s.work(s.jobs)
	}
	if n, err := strconv.Atoi(os.Getenv("JOBS")); err == nil {
		go s.ownCalls(n)
	}
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, requestsOfConnection{}, new(int))
		},
	}
	switch os.Getenv("HTTP2") {
	case "net/http":
		srv.TLSNextProto, srv.Protocols = nil, new(http.Protocols)
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
	case "x/net":
		srv.Handler = h2c.NewHandler(s, &http2.Server{}) //nolint:staticcheck // likewise
	}
	plain, encrypted, _ := strings.Cut(listen, ",")
	failed := make(chan error, 2)
	if encrypted != "" {
		l, err := net.Listen("tcp", encrypted)
		if err != nil {
			return err
		}
		go func() { failed <- srv.ServeTLS(l, os.Getenv("CERTIFICATE"), os.Getenv("KEY")) }()
	}
	l, err := net.Listen("tcp", plain)
	if err != nil {
		return err
	}
	go func() { failed <- srv.Serve(l) }()
	return <-failed
}

func (s *goService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	way, number := path.Split(r.URL.Path)
	n, err := strconv.Atoi(number)
	handle := s.ways()[strings.Trim(way, "/")]
	if s.next == "http://" { // nobody else is asked
		handle = answers[strings.Trim(way, "/")]
		if handle == nil {
			handle = answerHello
		}
	}
	if s.forward != nil {
		handle = func(_ http.ResponseWriter, r *http.Request, _ int) error {
			return s.ask(r.Context(), s.forward, s.next+r.URL.Path)
		}
	}
	if err != nil || handle == nil {
		http.NotFound(w, r)
		return
	}
	switch err := handle(w, r, n); {
	case errors.Is(err, errAnswered):
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		_, _ = io.WriteString(w, "hello world!\n")
	}
}

type goWayOf = func(w http.ResponseWriter, r *http.Request, n int) error

// errAnswered is returned by a way that has answered its request itself.
var errAnswered = errors.New("answered")

// ways are those in which the service asks others for a request.
func (s *goService) ways() map[string]goWayOf {
	asks := func(client *http.Client) goWayOf {
		return func(_ http.ResponseWriter, r *http.Request, _ int) error {
			return s.ask(r.Context(), client, s.next+r.URL.Path)
		}
	}
	proxied := func(w http.ResponseWriter, r *http.Request, _ int) error {
		s.proxy.ServeHTTP(w, r)
		return errAnswered
	}
	return map[string]goWayOf{
		"n": s.all, "client": asks(s.client), "timeout": asks(s.timed), "queued": asks(s.queued),
		"retry": asks(s.client), "redirect": asks(s.client),
		"proxy": proxied, "stream": proxied, "hold": proxied, "upgrade": proxied,
		"tls": func(_ http.ResponseWriter, r *http.Request, _ int) error {
			return s.ask(r.Context(), s.client, cmp.Or(s.nextTLS, s.next)+r.URL.Path)
		},
		"nocontext": func(_ http.ResponseWriter, r *http.Request, _ int) error {
			return s.ask(context.Background(), s.client, s.next+r.URL.Path)
		},
		"early": s.early, "early-length": s.early, "padded": s.padded, "cancelled": s.cancelled, "hijacked": s.hijacked,
		"redis":     func(_ http.ResponseWriter, r *http.Request, n int) error { return s.askRedis(r.Context(), key("n", n)) },
		"memcached": func(_ http.ResponseWriter, _ *http.Request, n int) error { return s.askMemcached(key("n", n)) },
		"sql": func(_ http.ResponseWriter, r *http.Request, n int) error {
			var text string
			return s.db.QueryRowContext(r.Context(), "SELECT '"+strings.Repeat("x", n)+"'").Scan(&text)
		},
		"shared": func(_ http.ResponseWriter, r *http.Request, n int) error {
			_, err, _ := s.shared.Do(strconv.Itoa(n/4), func() (any, error) { return nil, s.askRedis(r.Context(), key("n", n/4)) })
			return err
		},
		"errgroup": s.errgroup, "bare": s.bareErrgroup, "go": s.goroutine, "background": s.background, "grown": s.grown,
		"pool": func(_ http.ResponseWriter, r *http.Request, n int) error { return handOver(r.Context(), s.jobs, n) },
		"lazy": func(_ http.ResponseWriter, _ *http.Request, n int) error {
			s.lazy.Do(func() {
				for range pooled {
					go s.work(s.nobody)
				}
			})
			return handOver(context.Background(), s.nobody, n)
		},
		"begun": func(_ http.ResponseWriter, r *http.Request, n int) error {
			s.begin.Do(func() {
				for range pooled {
					go s.work(s.begun)
				}
			})
			return handOver(r.Context(), s.begun, n)
		},
		"late": s.late, "names": s.names,
	}
}

func key(prefix string, n int) string { return prefix + ":" + strconv.Itoa(n) }

func (s *goService) ask(ctx context.Context, client *http.Client, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	return asked(client.Do(req))
}

func (s *goService) askRedis(ctx context.Context, key string) error {
	if err := s.redis.Get(ctx, key).Err(); !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

func (s *goService) askMemcached(key string) error {
	if _, err := s.memcached.Get(key); !errors.Is(err, memcache.ErrCacheMiss) {
		return err
	}
	return nil
}

// all asks each in turn.
func (s *goService) all(_ http.ResponseWriter, r *http.Request, n int) error {
	if err := s.ask(r.Context(), s.client, s.next+r.URL.Path); err != nil || s.redis == nil {
		return err
	}
	return errors.Join(s.askRedis(r.Context(), key("n", n)), s.askMemcached(key("n", n)))
}

// early asks when its answer has begun, and a goroutine asks redis before it ends.
func (s *goService) early(w http.ResponseWriter, r *http.Request, n int) error {
	if strings.HasPrefix(r.URL.Path, "/early-length/") {
		w.Header().Set("Content-Length", "20")
	}
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	err := errors.Join(flush(), s.ask(r.Context(), s.client, s.next+r.URL.Path), s.askMemcached(key("n", n)))
	_, failed := io.WriteString(w, "hello, ")
	err = errors.Join(err, failed, flush())
	done := make(chan error)
	go func() { done <- s.askRedis(r.Context(), key("n", n)) }()
	if err = errors.Join(err, <-done); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// names looks up a name that nobody has asked for before, at the address in NAMES, and asks the next.
func (s *goService) names(_ http.ResponseWriter, r *http.Request, n int) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(os.Getenv("NAMES"), "53"))
	}}
	if _, err := resolver.LookupHost(r.Context(), "n"+strconv.Itoa(n)+".example.test."); err != nil {
		return err
	}
	return s.ask(r.Context(), s.client, s.next+r.URL.Path)
}

// padded passes the length of the request on.
func (s *goService) padded(_ http.ResponseWriter, r *http.Request, _ int) error {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, s.next+r.URL.Path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Padding", r.Header.Get("Padding"))
	return asked(s.client.Do(req))
}

// cancelled gives up on the one, sooner or later, and asks another.
func (s *goService) cancelled(_ http.ResponseWriter, r *http.Request, n int) error {
	ctx, cancel := context.WithCancel(r.Context())
	time.AfterFunc(time.Duration(n%8)*200*time.Microsecond, cancel)
	if err := s.ask(ctx, s.client, s.next+r.URL.Path); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return s.askRedis(r.Context(), key("n", n))
}

func (s *goService) errgroup(_ http.ResponseWriter, r *http.Request, n int) error {
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(func() error { return s.askRedis(ctx, key("a", n)) })
	g.Go(func() error { return s.askRedis(ctx, key("b", n)) })
	g.Go(func() error { return s.ask(ctx, s.client, s.next+r.URL.Path) })
	return g.Wait()
}

func (s *goService) bareErrgroup(_ http.ResponseWriter, _ *http.Request, n int) error {
	var g errgroup.Group
	g.Go(func() error { return s.askRedis(context.Background(), key("n", n)) })
	g.Go(func() error { return s.askMemcached(key("n", n)) })
	return g.Wait()
}

func (s *goService) goroutine(_ http.ResponseWriter, r *http.Request, n int) error {
	failed := make(chan error)
	go func(ctx context.Context) { failed <- s.askRedis(ctx, key("n", n)) }(r.Context())
	go func(ctx context.Context) { failed <- s.ask(ctx, s.client, s.next+r.URL.Path) }(r.Context())
	return errors.Join(<-failed, <-failed)
}

func (s *goService) background(_ http.ResponseWriter, _ *http.Request, n int) error {
	failed := make(chan error)
	go func() { failed <- s.askRedis(context.Background(), key("n", n)) }()
	go func() { failed <- s.askMemcached(key("n", n)) }()
	return errors.Join(<-failed, <-failed)
}

// grown leaves stacks behind that hold its context, when its own has grown; goroutines
// without a context get them.
func (s *goService) grown(w http.ResponseWriter, r *http.Request, n int) error {
	grow(r.Context(), 100)
	return s.background(w, r, n)
}

//go:noinline
func grow(ctx context.Context, depth int) int {
	if depth == 0 {
		return 0
	}
	below := grow(ctx, depth-1)
	if ctx.Err() != nil {
		return 0
	}
	return below + 1
}

func (s *goService) work(jobs chan goJob) {
	for j := range jobs {
		j.done <- s.askRedis(j.ctx, j.key)
	}
}

func handOver(ctx context.Context, jobs chan goJob, n int) error {
	done := make(chan error)
	jobs <- goJob{ctx, key("n", n), done}
	return <-done
}

// late leaves a goroutine behind that asks, with the context that it has kept, while
// the next request is under way.
func (s *goService) late(_ http.ResponseWriter, r *http.Request, n int) error {
	k := &goKept{make(chan struct{}), make(chan struct{})}
	go func(cancelled context.Context) {
		defer close(k.done)
		ctx := context.WithoutCancel(cancelled)
		<-k.release
		_ = s.askRedis(ctx, key("n", n))
		_ = s.ask(ctx, s.client, s.next+r.URL.Path)
		_ = s.askMemcached(key("n", n))
		_ = s.ask(cancelled, s.client, s.next+r.URL.Path)
	}(r.Context())
	s.mu.Lock()
	others := s.kept
	s.kept = []*goKept{k}
	s.mu.Unlock()
	for _, o := range others {
		close(o.release)
		<-o.done
	}
	return nil
}

// hijacked turns the connection into one of another protocol, and asks for what it
// receives there until the client leaves.
func (s *goService) hijacked(w http.ResponseWriter, _ *http.Request, n int) error {
	conn, err := upgrade(w)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err == nil {
			err = errors.Join(s.askRedis(context.Background(), key("upgraded", n)), s.askMemcached(key("upgraded", n)))
		}
		if err == nil {
			_, err = io.WriteString(conn, line)
		}
		if err != nil {
			return errAnswered
		}
	}
}

func upgrade(w http.ResponseWriter) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	}
	return conn, err
}

// ---- the one that is asked ----

// requestsOfConnection is the key of their number.
type requestsOfConnection struct{}

// answers are those that are not like all others.
var answers = map[string]goWayOf{
	"retry": answerFew, "redirect": answerElsewhere, "stream": answerStream, "hold": answerHold, "upgrade": answerLines,
}

func answerHello(http.ResponseWriter, *http.Request, int) error { return nil }

// answerFew closes a connection at every fifth request.
func answerFew(w http.ResponseWriter, r *http.Request, _ int) error {
	requests, _ := r.Context().Value(requestsOfConnection{}).(*int)
	if *requests++; *requests%5 != 0 {
		return nil
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	_ = conn.Close()
	return errAnswered
}

func answerElsewhere(w http.ResponseWriter, r *http.Request, n int) error {
	http.Redirect(w, r, "/redirected/"+strconv.Itoa(n), http.StatusTemporaryRedirect)
	return errAnswered
}

// answerStream sends as much as it received, a piece at a time.
func answerStream(w http.ResponseWriter, r *http.Request, _ int) error {
	size, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return err
	}
	for part := make([]byte, piece); size > 0; size -= piece {
		if _, err := w.Write(part[:min(size, piece)]); err != nil {
			return err
		}
		_ = http.NewResponseController(w).Flush()
	}
	return errAnswered
}

// answerHold tells that it has the request, and does not answer it.
func answerHold(w http.ResponseWriter, r *http.Request, _ int) error {
	w.WriteHeader(http.StatusProcessing)
	<-r.Context().Done()
	return errAnswered
}

// answerLines switches protocols, and returns each line.
func answerLines(w http.ResponseWriter, _ *http.Request, _ int) error {
	conn, err := upgrade(w)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, conn)
	return errAnswered
}
