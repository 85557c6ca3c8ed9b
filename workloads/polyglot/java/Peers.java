import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.JedisPooled;

/** Whom the services ask: the backend by one of the JDK's two clients or by Jetty's, redis by Jedis. */
final class Peers {
  static final String HOST = System.getenv().getOrDefault("HOST", "127.0.0.1");
  static final int PORT = port("PORT");
  static final String BACKEND = "http://" + HOST + ":" + port("BACKEND") + "/n/";
  static final int MOST = 1024;

  private final JedisPooled redis;
  private final HttpClient client;
  private final org.eclipse.jetty.client.HttpClient jetty; // both null: HttpURLConnection

  Peers(String client) throws Exception {
    System.setProperty("http.maxConnections", "" + MOST);
    var pool = new ConnectionPoolConfig();
    pool.setMaxTotal(MOST);
    pool.setMaxIdle(MOST);
    redis = new JedisPooled(pool, HOST, port("REDIS"));
    this.client = client.equals("client") ? HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build() : null;
    jetty = client.equals("jetty") ? new org.eclipse.jetty.client.HttpClient() : null;
    if (jetty != null) {
      jetty.setMaxConnectionsPerDestination(MOST);
      jetty.start();
    }
  }

  static int port(String name) {
    return Integer.parseInt(System.getenv(name));
  }

  String ask(String path) throws IOException {
    var n = path.substring(path.lastIndexOf('/') + 1);
    var told = told(URI.create(BACKEND + n));
    var got = redis.get("n:" + n);
    return told + " " + (got == null ? "" : got);
  }

  private String told(URI uri) throws IOException {
    if (jetty != null) {
      try {
        return jetty.GET(uri).getContentAsString();
      } catch (Exception e) {
        throw new IOException(e);
      }
    }
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
