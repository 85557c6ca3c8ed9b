import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.lang.reflect.Method;

/** Threads that wait in a read, each of which prints its id; sleeping ones; and with an argument, garbage. */
public class Threads {
  static volatile Object[] garbage = new Object[1000];

  static synchronized void print(String kind) {
    System.out.println(kind + " " + Thread.currentThread().getId());
  }

  static void read() {
    try {
      new FileInputStream(FileDescriptor.in).read();
    } catch (Exception e) {
      throw new RuntimeException(e);
    }
  }

  static void sleep() {
    try {
      Thread.sleep(1000000);
    } catch (InterruptedException e) {
      throw new RuntimeException(e);
    }
  }

  public static void main(String[] args) throws Exception {
    for (int i = 0; i < 3; i++) {
      Thread t = new Thread(() -> { print("platform"); read(); });
      t.setDaemon(true);
      t.start();
    }
    try {
      Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
      for (int i = 0; i < 3; i++) {
        start.invoke(null, (Runnable) Threads::sleep);
        start.invoke(null, (Runnable) () -> { print("virtual"); read(); });
      }
    } catch (NoSuchMethodException e) { // before 21
    }
    Thread.sleep(300);
    System.out.println("ready");
    for (int i = 0; args.length > 0; i++) {
      garbage[i % garbage.length] = new byte[1 << 14];
      if (i % 2000 == 0) {
        System.gc();
      }
    }
    read();
  }
}
