package tare.shim;

import java.io.Closeable;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.RunnableFuture;
import java.util.concurrent.SynchronousQueue;
import java.util.function.BiFunction;
import tare.shim.Table.Slot;

/** What woven code calls. Nothing here throws: what cannot be done leaves a call unlinked. */
public final class Shim {
  private static volatile Table table; // null until everything is woven
  private static ThreadLocal<Slot> slots = new ThreadLocal<>();

  private Shim() {}

  static void start(Table t) {
    try {
      slots = carrierThreadLocal();
    } catch (ReflectiveOperationException e) {
      // Before JDK 21: threads are the kernel's.
    }
    // What the woven code needs is loaded here, and not within a socket's first read.
    new Carried("", 0);
    new Carried.OfFuture(null, 0);
    Work.get().begin(0);
    Work.get().end();
    wrap((Runnable) () -> {});
    t.claim();
    table = t;
  }

  /** From now on nothing is shown or taken. */
  static void stop() {
    table = null;
  }

  @SuppressWarnings("unchecked")
  private static ThreadLocal<Slot> carrierThreadLocal() throws ReflectiveOperationException {
    return (ThreadLocal<Slot>) Class.forName("jdk.internal.misc.CarrierThreadLocal").getConstructor().newInstance();
  }

  private static Slot slot(Table t) {
    Slot s = slots.get();
    if (s == null) slots.set(s = t.claim());
    return s;
  }

  // Sockets.

  public static void writing() {
    Table t = table;
    if (t == null) return;
    try {
      Work w = Work.get();
      if (w.takes()) slot(t).show(w.token());
    } catch (Throwable e) {
    }
  }

  public static void done() {
    try {
      Slot s = slots.get();
      if (s != null) s.show(0);
    } catch (Throwable e) {
    }
  }

  /** Shows the work for the case that an answer comes: the kernel side gives its receipt to the same work. */
  public static void reading() {
    writing();
  }

  public static void received(long n) {
    try {
      Slot s = slots.get();
      if (s == null) return;
      s.show(0);
      if (n <= 0 || table == null) return;
      Work w = Work.get();
      if (w.takes()) w.received(s.take());
    } catch (Throwable e) {
    }
  }

  public static void selecting() {
    if (table == null) return;
    try {
      Work.get().close();
    } catch (Throwable e) {
    }
  }

  // Loops that many connections share.

  /** With -javaagent:…=netty: what handlers of the application's own do with what was read is the request's, too. */
  static boolean handlers;

  /** A loop reads a connection. Who wrote on it last goes on, if an answer comes: with a buffer for what is to be written. */
  public static void turn(Object buffer) {
    if (table == null) return;
    try {
      if (handlers) begin(owner(buffer));
      else Work.get().hold();
    } catch (Throwable e) {
    }
  }

  /** A library begins that does with what was read what the request asks for, and nothing else. */
  public static void known() {
    if (table == null) return;
    try {
      Work w = Work.get();
      w.begin(w.open() && handlers ? w.token() : w.held());
    } catch (Throwable e) {
    }
  }

  /** A message is put into the buffer of a connection: until that is empty again, all in it is of one request, or nobody's. */
  public static void buffered(Object buffer, long pending, int size) {
    try {
      if (size <= 0 || !(buffer instanceof Owned)) return;
      Owned b = (Owned) buffer;
      long token = current();
      if (pending == 0) b.tare(token);
      else if (b.tare() != token) b.tare(0);
    } catch (Throwable e) {
    }
  }

  /** A listener is added: all of a promise's are of one request, or nobody's. Complemented, so that 0 is none yet. */
  public static void listens(Object promise) {
    try {
      if (!(promise instanceof Owned)) return;
      Owned p = (Owned) promise;
      long token = ~current();
      p.tare(p.tare() == 0 || p.tare() == token ? token : ~0L);
    } catch (Throwable e) {
    }
  }

  public static void notifies(Object promise) {
    long token = ~owner(promise);
    begin(token == ~0L ? 0 : token);
  }

  // Tasks.

  /** A task or function that is nobody's but its maker's: the wrapper is not seen by the application. */
  public static Object wrap(Object task) {
    if (table == null || task == null) return task;
    try {
      if (task instanceof Carried || task instanceof Carried.OfTwo || task instanceof RunnableFuture || task instanceof ForkJoinTask) return task;
      long token = Work.get().token();
      return task instanceof BiFunction ? new Carried.OfTwo(task, token) : new Carried(task, token);
    } catch (Throwable e) {
      return task;
    }
  }

  /** A task that goes into a queue of the application's: wrapped where nothing but a worker looks at what is in it. */
  public static Runnable queued(Queue<?> queue, Runnable task) {
    if (table == null || task == null) return task;
    try {
      Class<?> q = queue.getClass();
      boolean plain = q == LinkedBlockingQueue.class || q == SynchronousQueue.class || q == ArrayBlockingQueue.class
          || q == LinkedBlockingDeque.class || q == LinkedTransferQueue.class;
      if (!plain || task instanceof FutureTask || task instanceof Carried || task instanceof ForkJoinTask) return task;
      return task instanceof Future ? new Carried.OfFuture((Future<?>) task, Work.get().token()) : (Runnable) wrap(task);
    } catch (Throwable e) {
      return task;
    }
  }

  /** The same for a pool that closes what it does not run any more. */
  public static Runnable closeable(Runnable task) {
    return task instanceof Closeable ? task : (Runnable) wrap(task);
  }

  /** A worker begins with a task: with its token, and none of the task before. Returns the application's own task. */
  public static Runnable taken(Runnable task) {
    if (table == null) return unwrap(task);
    try {
      Work.get().set(task instanceof Carried ? ((Carried) task).token : 0);
    } catch (Throwable e) {
    }
    return unwrap(task);
  }

  public static Runnable unwrap(Runnable task) {
    return task instanceof Carried ? (Runnable) ((Carried) task).task : task;
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  public static List unwrap(List tasks) {
    try {
      tasks.replaceAll(t -> t instanceof Carried ? ((Carried) t).task : t);
    } catch (Throwable e) {
    }
    return tasks;
  }

  /** The queue's own object for a task that is to be removed from it. */
  public static Runnable inQueue(Queue<?> queue, Runnable task) {
    if (table == null || task == null || task instanceof Carried) return task;
    try {
      for (Object t : queue) {
        if (t instanceof Carried && task.equals(((Carried) t).task)) return (Runnable) t;
      }
    } catch (Throwable e) {
    }
    return task;
  }

  private static long owner(Object o) {
    return o instanceof Owned ? ((Owned) o).tare() : 0;
  }

  /** What the thread does now; for what keeps its maker's token. */
  public static long current() {
    try {
      return table == null ? 0 : Work.get().token();
    } catch (Throwable e) {
      return 0;
    }
  }

  /** A task begins that says whose it is; 0 for nobody's. Returns what end() wants, null if nothing was begun. */
  public static Work begin(long token) {
    if (table == null) return null;
    try {
      Work w = Work.get();
      w.begin(token);
      return w;
    } catch (Throwable e) {
      return null;
    }
  }

  public static void end(Work w) {
    if (w != null) w.end();
  }

  // The same for woven code, which has no room for a variable.

  /** What has an owner begins; it is nobody's if it was made by a class that was loaded before the shim. */
  public static void enter(Object owned) {
    if (table != null) begin(owner(owned));
  }

  public static void leave() {
    if (table == null) return;
    try {
      Work w = Work.get();
      if (w.begun()) w.end();
    } catch (Throwable e) {
    }
  }
}
