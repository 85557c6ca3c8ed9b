import jakarta.servlet.AsyncContext;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** TomcatService KIND BACKEND: as Service, in Tomcat's own pool: "sync", or "async", which ends in a worker that reads nothing. */
public class TomcatService {
  public static void main(String[] args) throws Exception {
    Service.backend = "http://127.0.0.1:" + args[1] + "/b/";
    System.setProperty("http.maxConnections", "64");
    boolean async = args[0].equals("async");
    ExecutorService pool = Executors.newFixedThreadPool(4);
    ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
    Tomcat t = new Tomcat();
    t.setBaseDir(System.getProperty("java.io.tmpdir"));
    t.setPort(0);
    t.getConnector().setProperty("maxThreads", "8");
    t.getConnector().setProperty("address", "127.0.0.1");
    Context context = t.addContext("", System.getProperty("java.io.tmpdir"));
    Tomcat.addServlet(context, "s", new HttpServlet() {
      @Override protected void service(HttpServletRequest q, HttpServletResponse r) throws IOException {
        q.getInputStream().readAllBytes();
        int n = Integer.parseInt(q.getRequestURI().split("/")[2]);
        if (async && q.getDispatcherType() != DispatcherType.ASYNC) {
          AsyncContext a = q.startAsync();
          timer.schedule(() -> a.dispatch(), 2, TimeUnit.MILLISECONDS);
          return;
        }
        Service.call(n);
        if (!async) {
          try {
            pool.submit(() -> Service.call(n)).get();
          } catch (Exception e) {
            throw new IOException(e);
          }
        }
        r.getOutputStream().print("ok " + n);
      }
    }).setAsyncSupported(true);
    context.addServletMappingDecoded("/", "s");
    t.start();
    System.out.println(t.getConnector().getLocalPort());
    t.getServer().await();
  }
}
