import com.sun.net.httpserver.HttpServer;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.concurrent.Executors;

/** A server of threads: GET /n/5 asks the backend at BACKEND about number 5, with NAMES after it has looked a name up. java Serve.java PORT */
public class Serve {
    public static void main(String[] args) throws Exception {
        String backend = "http://127.0.0.1:" + System.getenv("BACKEND");
        System.setProperty("http.maxConnections", "256");
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])), 1024);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            if (System.getenv("NAMES") != null) {
                InetAddress.getByName("n" + exchange.getRequestURI().getPath().substring(3) + ".example.test");
            }
            HttpURLConnection asked = (HttpURLConnection) new URL(backend + exchange.getRequestURI()).openConnection();
            try (var answer = asked.getInputStream()) {
                answer.readAllBytes();
            }
            byte[] text = "hello\n".getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
