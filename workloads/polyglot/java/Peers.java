import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.JedisPooled;

/** Whom the services ask: the backend by one of the JDK's two clients, redis by Jedis. */
final class Peers {
  static final String HOST = System.getenv().getOrDefault("HOST", "127.0.0.1");
  static final int PORT = port("PORT");
  private static final String BACKEND = "http://" + HOST + ":" + port("BACKEND") + "/n/";
  private static final int MOST = 1024;

  private final JedisPooled redis;
  private final HttpClient client; // null: HttpURLConnection

  Peers(String client) {
    System.setProperty("http.maxConnections", "" + MOST);
    var pool = new ConnectionPoolConfig();
    pool.setMaxTotal(MOST);
    pool.setMaxIdle(MOST);
    redis = new JedisPooled(pool, HOST, port("REDIS"));
    this.client = client.equals("client") ? HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build() : null;
  }

  private static int port(String name) {
    return Integer.parseInt(System.getenv(name));
  }

  String ask(String path) throws IOException {
    var n = path.substring(path.lastIndexOf('/') + 1);
    var told = told(URI.create(BACKEND + n));
    var got = redis.get("n:" + n);
    return told + " " + (got == null ? "" : got);
  }

  private String told(URI uri) throws IOException {
    if (client == null) {
      try (var in = ((HttpURLConnection) uri.toURL().openConnection()).getInputStream()) {
        return new String(in.readAllBytes());
      }
    }
    try {
      return client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body();
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
  }
}
