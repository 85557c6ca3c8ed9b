import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** Service KIND BACKEND: answers /a/N after it called the backend for /b/N, in many ways. Prints its port. */
public class Service {
  static String backend;
  static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  interface Answer {
    void send(Throwable failed);
  }

  interface Handler {
    void handle(int n, Answer answer) throws Exception;
  }

  static void check(String text, int n) {
    if (!text.equals(Integer.toString(n))) throw new IllegalStateException(text + " for " + n);
  }

  /** HttpURLConnection keeps connections, and lends them to whoever asks. */
  static void call(int n) {
    try {
      var c = (HttpURLConnection) URI.create(backend + n).toURL().openConnection();
      try (InputStream in = c.getInputStream()) {
        check(new String(in.readAllBytes()), n);
      }
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }

  static HttpRequest request(int n) {
    return HttpRequest.newBuilder(URI.create(backend + n)).build();
  }

  static Executor serve(Executor executor, Handler handler) throws IOException {
    HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 512);
    s.setExecutor(executor);
    s.createContext("/", x -> {
      String[] path = x.getRequestURI().getPath().split("/");
      x.getRequestBody().readAllBytes();
      int n = Integer.parseInt(path[2]);
      Answer answer = failed -> {
        try {
          byte[] text = (failed == null ? "ok " + n : failed.toString()).getBytes();
          if (failed != null) failed.printStackTrace();
          x.sendResponseHeaders(failed == null ? 200 : 500, text.length);
          x.getResponseBody().write(text);
          x.close();
        } catch (IOException e) {
          e.printStackTrace();
        }
      };
      try {
        handler.handle(n, answer);
      } catch (Throwable t) {
        answer.send(t);
      }
    });
    s.start();
    System.out.println(s.getAddress().getPort());
    return executor;
  }

  static ExecutorService virtual() throws ReflectiveOperationException {
    return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
  }

  static class Sum extends RecursiveTask<Integer> {
    final int n, from, to;

    Sum(int n, int from, int to) {
      this.n = n;
      this.from = from;
      this.to = to;
    }

    @Override protected Integer compute() {
      if (to - from == 1) {
        call(n);
        return 1;
      }
      var left = new Sum(n, from, (from + to) / 2);
      left.fork();
      return new Sum(n, (from + to) / 2, to).compute() + left.join();
    }
  }

  public static void main(String[] args) throws Exception {
    backend = "http://127.0.0.1:" + args[1] + "/b/";
    System.setProperty("http.maxConnections", "64");
    System.setProperty("java.util.concurrent.ForkJoinPool.common.parallelism", "4"); // also where there are two processors
    ExecutorService p1 = Executors.newFixedThreadPool(4), p2 = Executors.newFixedThreadPool(4);
    ForkJoinPool fj = new ForkJoinPool(4);
    ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
    switch (args[0]) {
      case "pools": // saturated, and the last of them answers
        serve(Executors.newFixedThreadPool(16), (n, answer) -> p1.submit(() ->
            CompletableFuture.runAsync(() -> call(n), fj)
                .thenRunAsync(() -> call(n), p2)
                .whenComplete((ok, failed) -> timer.schedule(() -> p2.execute(() -> {
                  call(n);
                  answer.send(failed);
                }), 1, TimeUnit.MILLISECONDS))));
        break;
      case "client": // java.net.http's, asynchronous
        serve(Executors.newFixedThreadPool(16), (n, answer) -> p1.submit(() ->
            CLIENT.sendAsync(request(n), BodyHandlers.ofString()).thenApply(r -> r.body())
                .thenCompose(b -> {
                  check(b, n);
                  return CLIENT.sendAsync(request(n), BodyHandlers.ofString());
                })
                .thenCombineAsync(CompletableFuture.supplyAsync(() -> n, fj), (r, x) -> {
                  call(x);
                  return r;
                }, p2)
                .whenComplete((r, failed) -> answer.send(failed))));
        break;
      case "virtual": {
        ExecutorService v = virtual();
        serve(v, (n, answer) -> {
          check(CLIENT.send(request(n), BodyHandlers.ofString()).body(), n);
          v.submit(() -> call(n)).get();
          Thread.sleep(1);
          call(n);
          answer.send(null);
        });
        break;
      }
      case "completion": // invokeAll, futures of one's own and those that somebody completes later
        serve(Executors.newFixedThreadPool(16), (n, answer) -> {
          for (var f : p1.invokeAll(List.<Callable<Object>>of(Executors.callable(() -> call(n)), Executors.callable(() -> call(n))))) f.get();
          fj.submit(() -> call(n)).join();
          var promise = new Unseen.Promise(() -> call(n));
          p1.execute(promise);
          promise.get();
          new CompletableFuture<Void>().completeAsync(() -> {
            call(n);
            return null;
          }, p1).get();
          answer.send(null);
        });
        break;
      case "fork": // a task of another request may be run by who waits
        serve(Executors.newFixedThreadPool(16), (n, answer) -> {
          fj.submit(() -> new Sum(n, 0, 8).invoke()).join(); // who waits runs what others forked
          IntStream.range(0, 8).parallel().forEach(i -> call(n));
          answer.send(null);
        });
        break;
      case "threads": { // a thread for each connection: begins with nobody's task, so nothing is taken
        ServerSocket s = new ServerSocket(0, 512);
        System.out.println(s.getLocalPort());
        while (true) {
          Socket c = s.accept();
          new Thread(() -> {
            try {
              blocking(c);
            } catch (IOException e) {
              // The client is gone.
            }
          }).start();
        }
      }
      case "queue": { // workers that nobody knows: their own queue
        var jobs = new LinkedBlockingQueue<Runnable>();
        for (int i = 0; i < 4; i++) {
          new Thread(() -> {
            while (true) {
              try {
                jobs.take().run();
              } catch (InterruptedException e) {
                return;
              }
            }
          }).start();
        }
        serve(Executors.newFixedThreadPool(16), (n, answer) -> jobs.add(() -> {
          call(n);
          answer.send(null);
        }));
        break;
      }
      case "loop": // one thread for all, as Netty's
        p1.execute(() -> {
          try {
            loop(Integer.parseInt(args[1]));
          } catch (IOException e) {
            e.printStackTrace();
          }
        });
        break;
      default:
        throw new IllegalArgumentException(args[0]);
    }
  }

  static void blocking(Socket c) throws IOException {
    byte[] b = new byte[4096];
    for (int k; (k = c.getInputStream().read(b)) > 0; ) {
      String path = new String(b, 0, k).split(" ")[1];
      int n = Integer.parseInt(path.split("/")[2]);
      call(n);
      c.getOutputStream().write(ok("ok " + n));
    }
  }

  static byte[] ok(String text) {
    return ("HTTP/1.1 200 OK\r\nContent-Length: " + text.length() + "\r\n\r\n" + text).getBytes();
  }

  static void loop(int backendPort) throws IOException {
    Selector selector = Selector.open();
    ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0), 512);
    System.out.println(listener.socket().getLocalPort());
    listener.configureBlocking(false);
    listener.register(selector, SelectionKey.OP_ACCEPT);
    var idle = new ArrayDeque<SelectionKey>();
    for (int i = 0; i < 4; i++) {
      SocketChannel b = SocketChannel.open(new InetSocketAddress("127.0.0.1", backendPort));
      b.configureBlocking(false);
      idle.add(b.register(selector, SelectionKey.OP_READ));
    }
    record Job(SocketChannel to, int n) {}
    var jobs = new ArrayDeque<Job>();
    ByteBuffer buffer = ByteBuffer.allocate(65536);
    while (true) {
      selector.select();
      for (SelectionKey key : selector.selectedKeys()) {
        if (key.isAcceptable()) {
          SocketChannel c = listener.accept();
          c.configureBlocking(false);
          c.register(selector, SelectionKey.OP_READ);
          continue;
        }
        SocketChannel c = (SocketChannel) key.channel();
        buffer.clear();
        if (c.read(buffer) < 0) {
          key.cancel();
          c.close();
          continue;
        }
        if (key.attachment() instanceof Job job) {
          job.to.write(ByteBuffer.wrap(ok("ok " + job.n)));
          key.attach(null);
          idle.add(key);
        } else {
          String path = new String(buffer.array(), 0, buffer.position()).split(" ")[1];
          jobs.add(new Job(c, Integer.parseInt(path.split("/")[2])));
        }
        while (!idle.isEmpty() && !jobs.isEmpty()) {
          SelectionKey b = idle.remove();
          b.attach(jobs.remove());
          ((SocketChannel) b.channel()).write(ByteBuffer.wrap(("GET /b/" + ((Job) b.attachment()).n + " HTTP/1.1\r\nHost: x\r\n\r\n").getBytes()));
        }
      }
      selector.selectedKeys().clear();
    }
  }
}
