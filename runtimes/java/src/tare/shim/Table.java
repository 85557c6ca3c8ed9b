package tare.shim;

import java.io.File;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The table of runtimes/PROTOCOL.md, in a file that is deleted as soon as it is mapped. A buffer's own methods write it: they
 * are one instruction each when compiled, and need neither Unsafe nor a version of java.lang.foreign.
 */
final class Table {
  private static final int HEADER = 64;
  private static final int RECORD = 64;
  private static final int PROBES = 4;
  private static final int EVERY_READ = 1; // flag: every read that brings bytes takes the receipt
  private static final byte[] RANDOM = {
    0, (byte) 0x9e, 0x37, 0x79, (byte) 0xb9, 0x7f, 0x4a, 0x7c, 0x15, (byte) 0xf3, (byte) 0x9c, (byte) 0xc0, 0x60, 0x5c, (byte) 0xed, (byte) 0xc8,
  };
  private static final VarHandle INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());

  private final MappedByteBuffer memory;
  private final int slots;
  private final AtomicInteger writers = new AtomicInteger(); // the upper bits of a thread's tokens

  private Table(MappedByteBuffer memory, int slots) {
    this.memory = memory;
    this.slots = slots;
  }

  static Table map(File dir, int slots) throws IOException {
    if (Integer.bitCount(slots) != 1) throw new IOException("slots are not a power of 2: " + slots);
    // Threads are known by the ids that /proc says: it must be of this process's pid namespace.
    if (!Files.readSymbolicLink(Path.of("/proc/self")).toString().equals(Long.toString(ProcessHandle.current().pid()))) {
      throw new IOException("/proc is of another pid namespace");
    }
    Path path = Files.createTempFile(dir.toPath(), "tare-threads", "");
    try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      Files.delete(path);
      int size = HEADER + slots * RECORD;
      ByteBuffer zeros = ByteBuffer.allocate(size);
      while (zeros.hasRemaining()) file.write(zeros); // a full file system is an error here, and no SIGBUS later
      MappedByteBuffer memory = file.map(FileChannel.MapMode.READ_WRITE, 0, size);
      memory.order(ByteOrder.nativeOrder());
      memory.putInt(32, slots);
      memory.put(1, "tare-threads-v1".getBytes());
      memory.put(16, RANDOM);
      return new Table(memory, slots);
    }
  }

  /** A kernel thread's record. Only that thread uses it. */
  static final class Slot {
    /** Of a thread that has none: its neighbourhood is full. */
    static final Slot NONE = new Slot(null, 0, 0);

    private final MappedByteBuffer memory;
    private final int current;
    private long receipt;

    private Slot(MappedByteBuffer memory, int at, long receipt) {
      this.memory = memory;
      this.current = at + 8;
      this.receipt = receipt;
    }

    void show(long token) {
      if (memory != null) memory.putLong(current, token);
    }

    /** The token for what this thread received last; the next is published. */
    long take() {
      if (memory == null) return 0;
      long token = receipt;
      memory.putLong(current + 16, ++receipt);
      return token;
    }
  }

  /** Claims a record for the calling kernel thread. */
  Slot claim() {
    try {
      String self = Files.readSymbolicLink(Path.of("/proc/thread-self")).toString(); // gettid() without native code
      int tid = Integer.parseInt(self.substring(self.lastIndexOf('/') + 1));
      int first = (int) ((tid * 0x9E3779B1 & 0xFFFFFFFFL) * slots >>> 32);
      for (int i = 0; i < PROBES; i++) {
        int at = HEADER + (first + i & slots - 1) * RECORD;
        int owner = (int) INT.getVolatile(memory, at);
        if (owner != 0 && owner != tid && Files.exists(Path.of("/proc/self/task/" + owner))) continue;
        // -1 while it is made: no thread has that id.
        if (!INT.compareAndSet(memory, at, owner, -1)) continue;
        long receipt = (long) writers.incrementAndGet() << 40 | 1;
        memory.putInt(at + 4, EVERY_READ);
        memory.putLong(at + 8, 0);
        memory.putLong(at + 24, receipt);
        INT.setVolatile(memory, at, tid);
        return new Slot(memory, at, receipt);
      }
    } catch (Throwable t) {
      // No record: what this thread sends is not linked.
    }
    return Slot.NONE;
  }
}
