import com.sun.net.httpserver.HttpServer;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.threads.VirtualThreadExecutor;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** Service SERVER THREADS CLIENT: jdk, tomcat or jetty; pool or virtual; connection, client or jetty. */
public final class Service {
  public static void main(String[] args) throws Exception {
    var peers = new Peers(args[2]);
    var virtual = args[1].equals("virtual");
    switch (args[0]) {
      case "jdk" -> jdk(peers, virtual);
      case "tomcat" -> tomcat(peers, virtual);
      default -> jetty(peers, virtual);
    }
  }

  private static Executor virtualThreads() throws ReflectiveOperationException { // since Java 21
    return (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  static void jdk(Peers peers, boolean virtual) throws Exception {
    System.setProperty("sun.net.httpserver.nodelay", "true");
    System.setProperty("sun.net.httpserver.maxIdleConnections", "4096");
    var server = HttpServer.create(new InetSocketAddress(Peers.HOST, Peers.PORT), 4096);
    server.setExecutor(virtual ? virtualThreads() : Executors.newFixedThreadPool(64));
    server.createContext("/n/", exchange -> {
      try (exchange) {
        var text = peers.ask(exchange.getRequestURI().getPath()).getBytes();
        exchange.sendResponseHeaders(200, text.length);
        exchange.getResponseBody().write(text);
      }
    });
    server.start();
  }

  static void tomcat(Peers peers, boolean virtual) throws Exception {
    var tomcat = new Tomcat();
    tomcat.setBaseDir(Files.createTempDirectory(java.nio.file.Path.of("."), "tomcat").toString());
    tomcat.setPort(Peers.PORT);
    var connector = tomcat.getConnector();
    connector.setProperty("address", Peers.HOST);
    connector.setProperty("acceptCount", "4096");
    connector.setProperty("maxKeepAliveRequests", "-1");
    connector.setProperty("keepAliveTimeout", "300000");
    if (virtual) {
      connector.getProtocolHandler().setExecutor(new VirtualThreadExecutor("virtual"));
    }
    var context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "ask", new HttpServlet() {
      @Override
      protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().write(peers.ask(request.getRequestURI()));
      }
    });
    context.addServletMappingDecoded("/n/*", "ask");
    tomcat.start();
    tomcat.getServer().await();
  }

  static void jetty(Peers peers, boolean virtual) throws Exception {
    var threads = new QueuedThreadPool();
    if (virtual) {
      threads.setVirtualThreadsExecutor(virtualThreads());
    }
    var server = new Server(threads);
    var connector = new ServerConnector(server);
    connector.setHost(Peers.HOST);
    connector.setPort(Peers.PORT);
    connector.setAcceptQueueSize(4096);
    connector.setIdleTimeout(300_000);
    server.addConnector(connector);
    server.setHandler(new Handler.Abstract() {
      @Override
      public boolean handle(Request request, Response response, Callback callback) throws IOException {
        Content.Sink.write(response, true, peers.ask(request.getHttpURI().getPath()), callback);
        return true;
      }
    });
    server.start();
  }
}
