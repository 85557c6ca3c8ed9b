package tare.shim;

/**
 * Which request a (perhaps virtual) thread works for.
 *
 * A thread takes tokens from what it reads only while it runs a task that was seen to begin (open): then the token cannot be
 * left over from another task. A thread that waits for many sockets at once works for all of them, and takes none.
 *
 * A loop that reads one of its sockets holds the token of what it read: it works for that request only from where a
 * library is known to begin with it, since before that anybody's handlers run, which may serve others from their queues.
 */
final class Work {
  private static final ThreadLocal<Work> WORK = ThreadLocal.withInitial(Work::new);
  private static final int DEPTH = 64; // tasks within tasks; deeper ones are not linked

  private long token;
  private boolean open;
  private boolean held;
  private final long[] tokens = new long[8];
  private long[] more;
  private long opens; // a bit for each level
  private long holds;
  private int depth;

  static Work get() {
    return WORK.get();
  }

  boolean open() {
    return open;
  }

  /** Reads give it tokens. */
  boolean takes() {
    return open || held;
  }

  long token() {
    return open ? token : 0;
  }

  long held() {
    return held ? token : 0;
  }

  void received(long receipt) {
    token = receipt;
  }

  /** A task of a thread that has no other: nothing is left of the one before. */
  void set(long token) {
    this.token = token;
    open = true;
    held = false;
  }

  void close() {
    token = 0;
    open = held = false;
  }

  /** A task begins within whatever the thread does. */
  void begin(long token) {
    int level = depth++;
    if (level < DEPTH) {
      if (level >= tokens.length && more == null) more = new long[DEPTH];
      (level < tokens.length ? tokens : more)[level] = this.token;
      opens = open ? opens | 1L << level : opens & ~(1L << level);
      holds = held ? holds | 1L << level : holds & ~(1L << level);
    }
    this.token = level < DEPTH ? token : 0;
    open = level < DEPTH;
    held = false;
  }

  /** A loop begins with one of its sockets. */
  void hold() {
    begin(0);
    held = open;
    open = false;
  }

  /** False if tasks began before the shim did. */
  boolean begun() {
    return depth > 0;
  }

  void end() {
    int level = --depth;
    token = level < DEPTH ? (level < tokens.length ? tokens : more)[level] : 0;
    open = level < DEPTH && (opens >>> level & 1) != 0;
    held = level < DEPTH && (holds >>> level & 1) != 0;
  }
}
