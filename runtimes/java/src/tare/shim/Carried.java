package tare.shim;

import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/** A task, or a stage's function, with the token of whoever made it. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Carried implements Runnable, Callable, Supplier, Function, Consumer, BiConsumer {
  final Object task;
  final long token;

  Carried(Object task, long token) {
    this.task = task;
    this.token = token;
  }

  @Override public void run() {
    Work w = Shim.begin(token);
    try {
      ((Runnable) task).run();
    } finally {
      Shim.end(w);
    }
  }

  @Override public Object call() throws Exception {
    Work w = Shim.begin(token);
    try {
      return ((Callable) task).call();
    } finally {
      Shim.end(w);
    }
  }

  @Override public Object get() {
    Work w = Shim.begin(token);
    try {
      return ((Supplier) task).get();
    } finally {
      Shim.end(w);
    }
  }

  @Override public Object apply(Object x) {
    Work w = Shim.begin(token);
    try {
      return ((Function) task).apply(x);
    } finally {
      Shim.end(w);
    }
  }

  @Override public void accept(Object x) {
    Work w = Shim.begin(token);
    try {
      ((Consumer) task).accept(x);
    } finally {
      Shim.end(w);
    }
  }

  @Override public void accept(Object x, Object y) {
    Work w = Shim.begin(token);
    try {
      ((BiConsumer) task).accept(x, y);
    } finally {
      Shim.end(w);
    }
  }

  @Override public String toString() {
    return task.toString();
  }

  /** A pool's purge() looks for futures that are cancelled. */
  static final class OfFuture extends Carried implements Future {
    OfFuture(Future task, long token) {
      super(task, token);
    }

    @Override public boolean cancel(boolean interrupt) {
      return ((Future) task).cancel(interrupt);
    }

    @Override public boolean isCancelled() {
      return ((Future) task).isCancelled();
    }

    @Override public boolean isDone() {
      return ((Future) task).isDone();
    }

    @Override public Object get() {
      throw new UnsupportedOperationException(); // nobody sees a task that is queued
    }

    @Override public Object get(long limit, TimeUnit unit) {
      throw new UnsupportedOperationException();
    }
  }

  /** Of its own, because its andThen is not Function's. */
  static final class OfTwo implements BiFunction {
    private final Object task;
    private final long token;

    OfTwo(Object task, long token) {
      this.task = task;
      this.token = token;
    }

    @Override public Object apply(Object x, Object y) {
      Work w = Shim.begin(token);
      try {
        return ((BiFunction) task).apply(x, y);
      } finally {
        Shim.end(w);
      }
    }

    @Override public String toString() {
      return task.toString();
    }
  }
}
