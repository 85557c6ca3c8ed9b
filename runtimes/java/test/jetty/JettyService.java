import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** JettyService KIND BACKEND: as Service, in Jetty's own pool: "sync", or "client", by Jetty's client with four connections. */
public class JettyService {
  static HttpClient client;

  static CompletableFuture<Void> call(int n) {
    return new CompletableResponseListener(client.newRequest(Service.backend + n)).send()
        .thenAccept(r -> Service.check(r.getContentAsString(), n));
  }

  public static void main(String[] args) throws Exception {
    Service.backend = "http://127.0.0.1:" + args[1] + "/b/";
    System.setProperty("http.maxConnections", "64");
    client = new HttpClient();
    client.setMaxConnectionsPerDestination(4);
    client.start();
    ExecutorService pool = Executors.newFixedThreadPool(4);
    boolean async = args[0].equals("client");
    Server s = new Server(new QueuedThreadPool(24));
    ServerConnector c = new ServerConnector(s);
    c.setHost("127.0.0.1");
    s.addConnector(c);
    s.setHandler(new Handler.Abstract() {
      @Override public boolean handle(Request q, Response r, Callback callback) throws Exception {
        String[] path = q.getHttpURI().getPath().split("/");
        if (path.length < 3) return false;
        Content.Source.asString(q);
        int n = Integer.parseInt(path[2]);
        if (async) {
          Service.check(client.GET(Service.backend + n).getContentAsString(), n);
          call(n).thenCompose(x -> call(n)).thenRunAsync(() -> Service.call(n), s.getThreadPool()).whenComplete((x, failed) -> {
            if (failed != null) failed.printStackTrace();
            Content.Sink.write(r, true, "ok " + n, callback);
          });
        } else {
          Service.call(n);
          pool.submit(() -> Service.call(n)).get();
          s.getThreadPool().execute(() -> {
            Service.call(n);
            Content.Sink.write(r, true, "ok " + n, callback);
          });
        }
        return true;
      }
    });
    s.start();
    System.out.println(c.getLocalPort());
    s.join();
  }
}
