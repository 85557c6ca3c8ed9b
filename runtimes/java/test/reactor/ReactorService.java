import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;
import reactor.netty.resources.LoopResources;

/**
 * ReactorService KIND BACKEND: as Service, with two loops and four connections, which requests hand to each other. What a
 * request waits for is often signalled by another: a cache that it shares, a sink that the next request completes.
 */
public class ReactorService {
  static HttpClient client;
  static final Queue<Sinks.Empty<Void>> waiting = new ConcurrentLinkedQueue<>();
  static final AtomicInteger requests = new AtomicInteger();
  static volatile Mono<Long> shared = Mono.delay(Duration.ofMillis(1)).cache();

  static Mono<String> call(String n) {
    return client.get().uri("/b/" + n).responseContent().aggregate().asString().map(text -> {
      if (!text.equals(n)) throw new IllegalStateException(text + " for " + n);
      return text;
    });
  }

  /** Every other request waits for the one after it, or for a timer. */
  static Mono<Void> turn() {
    Sinks.Empty<Void> next = waiting.poll();
    if (next != null) next.tryEmitEmpty();
    if (requests.incrementAndGet() % 2 == 0) return Mono.empty();
    Sinks.Empty<Void> own = Sinks.empty();
    waiting.add(own);
    return own.asMono().timeout(Duration.ofMillis(20), Mono.empty());
  }

  static Mono<Long> cached() {
    if (requests.get() % 8 == 0) shared = Mono.delay(Duration.ofMillis(2)).cache();
    return shared;
  }

  static Mono<String> handle(String n) {
    return call(n)
        .then(Mono.defer(ReactorService::turn)).then(Mono.defer(() -> call(n)))
        .then(Mono.defer(ReactorService::cached)).flatMap(x -> Mono.zip(call(n), call(n)))
        .publishOn(Schedulers.parallel()).flatMap(x -> call(n))
        .onErrorResume(e -> {
          e.printStackTrace();
          return Mono.just(e.toString());
        })
        .thenReturn("ok " + n);
  }

  public static void main(String[] args) {
    LoopResources loops = LoopResources.create("loop", 2, true);
    client = HttpClient.create(ConnectionProvider.builder("four").maxConnections(4).pendingAcquireMaxCount(-1).build())
        .runOn(loops).baseUrl("http://127.0.0.1:" + args[1]);
    var server = HttpServer.create().host("127.0.0.1").port(0).runOn(loops)
        .handle((q, r) -> {
          String[] path = q.uri().split("/");
          return r.sendString(q.receive().aggregate().asString().defaultIfEmpty("").flatMap(body -> path.length < 3 ? Mono.just("") : handle(path[2])));
        })
        .bindNow();
    System.out.println(server.port());
    server.onDispose().block();
  }
}
