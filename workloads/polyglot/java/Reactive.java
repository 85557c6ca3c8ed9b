import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.support.AsyncConnectionPoolSupport;
import io.lettuce.core.support.AsyncPool;
import io.lettuce.core.support.BoundedPoolConfig;
import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/** reactor-netty, server and client, and Lettuce: Reactive TRANSPORT REDIS: epoll or nio; a connection that all share, or a pool. */
public final class Reactive {
  public static void main(String[] args) {
    var epoll = Boolean.toString(args[0].equals("epoll"));
    System.setProperty("reactor.netty.native", epoll);
    System.setProperty("io.lettuce.core.epoll", epoll);
    var redis = RedisClient.create();
    var uri = RedisURI.create(Peers.HOST, Peers.port("REDIS"));
    redis.setOptions(ClientOptions.builder().protocolVersion(ProtocolVersion.RESP2).build());
    var client = HttpClient.create(ConnectionProvider.builder("backend").maxConnections(Peers.MOST).pendingAcquireMaxCount(-1).build());
    var pool = AsyncConnectionPoolSupport.createBoundedObjectPool(() -> redis.connectAsync(StringCodec.UTF8, uri),
        BoundedPoolConfig.builder().maxTotal(Peers.MOST).maxIdle(Peers.MOST).build(), false);
    var shared = args[1].equals("shared") ? redis.connect(uri) : null;
    HttpServer.create().host(Peers.HOST).port(Peers.PORT).handle((request, response) -> {
      var n = request.uri().substring(request.uri().lastIndexOf('/') + 1);
      return response.sendString(client.get().uri(Peers.BACKEND + n).responseContent().aggregate().asString()
          .flatMap(told -> (shared != null ? shared.reactive().get("n:" + n) : lent(pool, n)).defaultIfEmpty("").map(got -> told + " " + got)));
    }).bindNow().onDispose().block();
  }

  private static Mono<String> lent(AsyncPool<StatefulRedisConnection<String, String>> pool, String n) {
    return Mono.fromFuture(() -> pool.acquire().thenCompose(c -> c.async().get("n:" + n).whenComplete((got, failed) -> pool.release(c))));
  }
}
