import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** ns of what is woven, the best of 12 rounds, within a pool's task as requests are; run with and without -javaagent. */
public class Bench {
  static volatile long sink;

  interface Op {
    void run(int n) throws Exception;
  }

  static void time(String name, int n, Op op) throws Exception {
    double best = Double.MAX_VALUE;
    for (int i = 0; i < 12; i++) {
      long t = System.nanoTime();
      op.run(n);
      best = Math.min(best, (System.nanoTime() - t) / (double) n);
    }
    System.out.printf("  %-44s %8.1f ns%n", name, best);
  }

  public static void main(String[] args) throws Exception {
    System.out.println("Java " + System.getProperty("java.version"));
    var pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.DAYS, new LinkedBlockingQueue<>());
    pool.submit(() -> {
      all();
      return null;
    }).get();
    pool.shutdown();
  }

  static void all() throws Exception {
    var direct = new ThreadPoolExecutor(1, 1, 1, TimeUnit.DAYS, new SynchronousQueue<>(), new ThreadPoolExecutor.CallerRunsPolicy());
    var block = new CountDownLatch(1);
    direct.execute(() -> {
      try {
        block.await();
      } catch (InterruptedException e) {
        // Shut down.
      }
    });
    Runnable nothing = () -> sink++;
    time("ThreadPoolExecutor.execute, the caller runs", 2_000_000, n -> {
      for (int i = 0; i < n; i++) direct.execute(nothing);
    });
    time("FutureTask made and run", 2_000_000, n -> {
      for (int i = 0; i < n; i++) new FutureTask<>(nothing, null).run();
    });
    time("CompletableFuture.thenApply, complete, join", 1_000_000, n -> {
      for (int i = 0; i < n; i++) {
        var f = new CompletableFuture<Long>();
        var g = f.thenApply(x -> x + 1);
        f.complete((long) i);
        sink += g.join();
      }
    });
    // To itself, over loopback: mostly the kernel's time.
    try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket a = new Socket(s.getInetAddress(), s.getLocalPort()); Socket b = s.accept()) {
      a.setTcpNoDelay(true);
      var out = a.getOutputStream();
      var in = b.getInputStream();
      byte[] one = new byte[1];
      time("a byte written and read", 50_000, n -> {
        for (int i = 0; i < n; i++) {
          out.write(one);
          in.read(one);
        }
      });
    }
    block.countDown();
    direct.shutdown();
    Class<?> shim;
    try {
      shim = Class.forName("tare.shim.Shim", true, null);
    } catch (ClassNotFoundException e) {
      return;
    }
    Direct.run(shim);
  }

  /** Calls the shim as woven code does; loaded only where the boot loader has it. */
  static class Direct {
    static void run(Class<?> shim) throws Exception {
      time("around a write", 5_000_000, n -> {
        for (int i = 0; i < n; i++) {
          tare.shim.Shim.writing();
          tare.shim.Shim.done();
        }
      });
      time("around a read that takes", 5_000_000, n -> {
        for (int i = 0; i < n; i++) {
          tare.shim.Shim.reading();
          tare.shim.Shim.received(1);
        }
      });
      Runnable r = () -> sink++;
      time("a task wrapped and run", 5_000_000, n -> {
        for (int i = 0; i < n; i++) ((Runnable) tare.shim.Shim.wrap(r)).run();
      });
    }
  }
}
