import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.RunnableFuture;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** What an application sees of its tasks is the same with the shim: the objects that it gave, and its own exceptions. */
public class Unseen {
  static class Task implements Runnable {
    final int priority;
    boolean ran;

    Task(int priority) {
      this.priority = priority;
    }

    @Override public void run() {
      ran = true;
    }
  }

  /** A future that is no FutureTask, as libraries have them. */
  static class Promise extends CompletableFuture<Void> implements RunnableFuture<Void> {
    final Runnable task;

    Promise(Runnable task) {
      this.task = task;
    }

    @Override public void run() {
      task.run();
      complete(null);
    }
  }

  static void is(boolean ok, String what) {
    if (!ok) throw new AssertionError(what);
  }

  static Runnable waits(CountDownLatch latch) {
    return () -> {
      try {
        latch.await();
      } catch (InterruptedException e) {
        // Shut down.
      }
    };
  }

  public static void main(String[] args) throws Exception {
    hooks();
    priorities();
    removal();
    rejection();
    exceptions();
    System.out.println("ok    what the application sees");
  }

  static void hooks() throws Exception {
    List<Runnable> seen = new ArrayList<>();
    var pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>()) {
      @Override protected void beforeExecute(Thread t, Runnable r) {
        seen.add((Task) r);
      }

      @Override protected void afterExecute(Runnable r, Throwable t) {
        is(((Task) r).ran && t == null, "afterExecute");
      }
    };
    Task first = new Task(1), second = new Task(2);
    pool.execute(first);
    pool.execute(second);
    pool.shutdown();
    is(pool.awaitTermination(9, TimeUnit.SECONDS), "terminated");
    is(seen.equals(List.of(first, second)), "beforeExecute " + seen);
  }

  static void priorities() throws Exception {
    var pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS,
        new PriorityBlockingQueue<>(4, Comparator.comparingInt(r -> ((Task) r).priority)));
    for (int i = 0; i < 8; i++) pool.execute(new Task(i));
    pool.shutdown();
    is(pool.awaitTermination(9, TimeUnit.SECONDS), "terminated");
    is(pool.getCompletedTaskCount() == 8, "completed");
  }

  static void removal() throws Exception {
    var latch = new CountDownLatch(1);
    var pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
    pool.execute(waits(latch));
    Task a = new Task(1), b = new Task(2);
    pool.execute(a);
    pool.execute(b);
    is(pool.remove(a) && !pool.remove(a) && pool.getQueue().size() == 1, "remove");
    Promise cancelled = new Promise(() -> {});
    pool.execute(cancelled);
    cancelled.cancel(false);
    pool.purge();
    is(pool.getQueue().size() == 1, "purge");
    List<Runnable> left = pool.shutdownNow();
    is(left.size() == 1 && left.get(0) == b, "shutdownNow " + left);
    is(pool.awaitTermination(9, TimeUnit.SECONDS) && !a.ran && !b.ran, "not run");
  }

  static void rejection() {
    List<Runnable> seen = new ArrayList<>();
    var latch = new CountDownLatch(1);
    var pool = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(1), (r, p) -> seen.add(r));
    pool.execute(waits(latch));
    pool.execute(new Task(1));
    Task rejected = new Task(2);
    pool.execute(rejected);
    is(seen.equals(List.of(rejected)), "rejected " + seen);
    pool.setRejectedExecutionHandler(new ThreadPoolExecutor.AbortPolicy());
    try {
      pool.execute(rejected);
      is(false, "aborted");
    } catch (RejectedExecutionException e) {
      is(e.getMessage().contains("Unseen$Task"), e.getMessage());
    }
    latch.countDown();
    pool.shutdown();
  }

  static void exceptions() throws Exception {
    var pool = Executors.newFixedThreadPool(1);
    for (Future<?> f : List.of(pool.submit((Callable<Object>) () -> { throw new IllegalStateException("own"); }),
        ForkJoinPool.commonPool().submit((Callable<Object>) () -> { throw new IllegalStateException("own"); }),
        CompletableFuture.supplyAsync(() -> { throw new IllegalStateException("own"); }, pool))) {
      try {
        f.get();
        is(false, "thrown");
      } catch (ExecutionException e) {
        Throwable t = e;
        while (t.getCause() != null) t = t.getCause();
        is(t instanceof IllegalStateException && t.getMessage().equals("own"), "own exception " + t);
      }
    }
    for (Runnable r : new Runnable[] {() -> pool.execute(null), () -> pool.submit((Runnable) null), () -> new FutureTask<>(null),
        () -> ForkJoinPool.commonPool().execute((Runnable) null), () -> CompletableFuture.runAsync(null)}) {
      try {
        r.run();
        is(false, "null");
      } catch (NullPointerException e) {
        // As without the shim.
      }
    }
    is(new FutureTask<>(new Task(1), 1).toString().contains("Unseen$Task"), "toString");
    pool.shutdown();
  }
}
