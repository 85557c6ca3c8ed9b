package tare.shim;

import static java.util.Map.entry;
import static tare.shim.Code.OBJECT;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import tare.shim.Code.Argument;
import tare.shim.Code.Around;
import tare.shim.Code.AtReturn;
import tare.shim.Code.Begin;
import tare.shim.Code.Buffered;
import tare.shim.Code.Known;
import tare.shim.Code.Made;
import tare.shim.Code.Owner;
import tare.shim.Code.Turn;
import tare.shim.Code.Wrap;

/** Puts calls of the shim into a few classes: where tasks are made and begin, and where sockets are read and written. */
final class Weaver implements ClassFileTransformer, Opcodes {
  private static final String POOL = "java/util/concurrent/ThreadPoolExecutor";
  /** Tomcat's copy. Its queue is its own, so tasks are not wrapped; but a worker begins each without the token of the one before. */
  private static final String TOMCAT = "org/apache/tomcat/util/threads/ThreadPoolExecutor";
  private static final String JETTY = "org/eclipse/jetty/util/thread/";
  private static final String BUFFER = "io/netty/channel/ChannelOutboundBuffer";
  private static final String PROMISE = "io/netty/util/concurrent/DefaultPromise";
  private static final String FORK_JOIN = "java/util/concurrent/ForkJoinTask";
  /** What a dispatcher of Kotlin's runs: a coroutine's object from one suspension to the next, made by who starts it or by itself. */
  private static final String COROUTINE = "kotlinx/coroutines/DispatchedTask";
  /** It consumes what many publish. */
  private static final String CONSUMER = "java/util/concurrent/SubmissionPublisher$ConsumerTask";
  /** The part of java.net.http's client that writes a request; its scheduler runs it for whoever comes by. */
  private static final String WRITE = "jdk/internal/net/http/Http1Exchange$Http1Publisher$WriteTask";
  /** Of sockets: the JDK's, and those of Netty's native transport. */
  private static final Set<String> WRITES = Set.of("write", "writev", "writeAddress", "writevAddresses", "send", "sendAddress");
  private static final Set<String> READS = Set.of("read", "readv", "readAddress", "recv", "recvAddress");
  /** A request of Jetty's client, which waits for a connection: who gives one back sends it. */
  private static final String EXCHANGE = "org/eclipse/jetty/client/transport/HttpExchange";

  /**
   * Subscribers of Reactor's operators, which are made when a request subscribes, and are signalled by whoever has the
   * value: a pool that gets a connection back, the one who filled a cache. Processors and sinks outlive requests.
   */
  private static boolean reactor(String cls) {
    return (cls.startsWith("reactor/core/publisher/") || cls.startsWith("reactor/netty/") || cls.startsWith("reactor/pool/"))
        && !cls.contains("Processor") && !cls.contains("/Sink");
  }

  private static boolean signal(String name, String desc) {
    return switch (name) {
      case "onNext" -> desc.endsWith(";)V") && desc.indexOf(';') == desc.length() - 3;
      case "onError" -> desc.equals("(Ljava/lang/Throwable;)V");
      case "onComplete", "run" -> desc.equals("()V");
      case "onStateChange" -> true; // of connections, in subscribers to them
      default -> false;
    };
  }

  private interface Part {
    /** What writes a method's code anew; the same visitor if there is nothing to do. */
    MethodVisitor weave(String cls, int access, String name, String desc, MethodVisitor next);
  }

  private static final Map<String, Part> PARTS = Map.ofEntries(
      entry("sun/nio/ch/SocketDispatcher", Weaver::socket),
      entry("sun/nio/ch/SelectorImpl", (c, a, name, d, m) -> name.equals("lockAndDoSelect") ? new Begin(m, "selecting") : m),
      entry("java/util/concurrent/FutureTask", (c, a, name, d, m) -> name.equals("<init>") ? new Wrap(m, a, d) : m),
      entry("java/util/concurrent/CompletableFuture", (c, a, name, d, m) -> name.endsWith("Stage") || name.equals("completeAsync") ? new Wrap(m, a, d) : m),
      entry("java/util/concurrent/ForkJoinPool", (c, a, name, d, m) -> name.equals("execute") || name.equals("submit") ? new Wrap(m, a, d) : m),
      entry(FORK_JOIN, (c, a, name, d, m) -> name.equals("doExec") ? new Owner(m, c, d, 0) : m),
      entry(CONSUMER, (c, a, name, d, m) -> name.equals("exec") ? new Begin(m, "selecting") : m),
      entry(COROUTINE, (c, a, name, d, m) -> name.equals("run") ? new Owner(m, c, d, 0) : m),
      entry("org/springframework/core/task/SimpleAsyncTaskExecutor", (c, a, name, d, m) -> name.equals("doExecute") ? new Wrap(m, a, d) : m),
      entry("java/lang/VirtualThread", (c, a, name, d, m) -> name.equals("<init>") ? new Wrap(m, a, d) : m),
      entry(POOL, Weaver::pool),
      entry(TOMCAT, Weaver::pool),
      entry(WRITE, (c, a, name, d, m) -> name.equals("run") ? new Owner(m, c, d, 0) : m),

      // Jetty: its pool, the threads that it reserves, and the tasks that its selectors produce, of one connection each.
      entry(JETTY + "QueuedThreadPool", (c, a, name, d, m) -> name.equals("execute") ? new Argument(m, null, "closeable")
          : name.equals("runJob") ? new Argument(m, null, "taken") : m),
      entry(JETTY + "ReservedThreadExecutor", (c, a, name, d, m) -> name.equals("tryExecute") ? new Wrap(m, a, d) : m),
      entry(JETTY + "strategy/AdaptiveExecutionStrategy", Weaver::produced),
      entry("org/eclipse/jetty/client/transport/HttpDestination", Weaver::exchange),
      entry("org/eclipse/jetty/client/transport/internal/HttpSenderOverHTTP", Weaver::sender),
      entry(EXCHANGE, (c, a, name, d, m) -> m),

      // Netty: a loop reads and writes for many connections, and runs tasks.
      entry("io/netty/channel/nio/AbstractNioByteChannel$NioByteUnsafe", (c, a, name, d, m) -> name.equals("read") ? new Turn(m, c, d) : m),
      entry("io/netty/channel/epoll/AbstractEpollStreamChannel$EpollStreamUnsafe", (c, a, name, d, m) -> name.equals("epollInReady") ? new Turn(m, c, d) : m),
      entry("io/netty/channel/socket/nio/NioSocketChannel", Weaver::flush),
      entry("io/netty/channel/epoll/AbstractEpollStreamChannel", Weaver::flush),
      entry("io/netty/channel/epoll/EpollEventLoop", (c, a, name, d, m) -> name.equals("run") ? new Begin(m, "selecting") : m),
      entry("io/netty/channel/epoll/EpollIoHandler", (c, a, name, d, m) -> name.equals("run") ? new Begin(m, "selecting") : m),
      entry("io/netty/channel/unix/FileDescriptor", Weaver::socket),
      entry("io/netty/channel/unix/Socket", Weaver::socket),
      entry(BUFFER, (c, a, name, d, m) -> name.equals("addMessage") ? new Buffered(m) : m),
      entry(PROMISE, (c, a, name, d, m) -> name.equals("addListener0") ? new Begin(m, "listens", OBJECT)
          : name.equals("notifyListenersNow") ? new Owner(m, c, d, 0, "notifies") : m),
      entry("io/netty/util/concurrent/PromiseTask", (c, a, name, d, m) -> name.equals("<init>") ? new Wrap(m, a, d) : m),
      entry("io/netty/util/concurrent/SingleThreadEventExecutor",
          (c, a, name, d, m) -> name.equals("execute") ? new Wrap(m, a, d) : m),
      entry("reactor/netty/http/server/HttpTrafficHandler", (c, a, name, d, m) -> name.equals("channelRead") ? new Known(m, c, d) : m));

  /** Classes whose objects have their maker's token; and those that others put a token into. */
  private static boolean made(String cls) {
    return cls.equals(FORK_JOIN) || cls.equals(COROUTINE) || cls.equals(WRITE) || cls.equals(EXCHANGE) || reactor(cls) && !PARTS.containsKey(cls);
  }

  private static boolean owned(String cls) {
    return made(cls) || cls.equals(BUFFER) || cls.equals(PROMISE);
  }

  private static Part part(String cls) {
    Part part = PARTS.get(cls);
    if (part != null) return part;
    return !made(cls) ? null : (c, a, name, d, m) -> signal(name, d) ? new Owner(m, c, d, 0) : m;
  }

  /** Why a class could not be woven. */
  volatile Exception failed;

  static boolean weaves(String cls) {
    return part(cls) != null;
  }

  /** Is there anything of the class that is woven? Of Reactor only subscribers are, and of Netty only what has the shape that is known. */
  private static boolean fits(String cls, ClassReader reader) {
    if ((reader.getAccess() & ACC_INTERFACE) != 0) return false;
    boolean reactor = !PARTS.containsKey(cls);
    if (!reactor && !cls.equals(BUFFER)) return true;
    boolean[] found = {false};
    reader.accept(new ClassVisitor(ASM9) {
      @Override public MethodVisitor visitMethod(int access, String name, String desc, String signature, String[] exceptions) {
        found[0] |= reactor ? signal(name, desc) && !name.equals("run") && !name.equals("onStateChange") && (access & ACC_ABSTRACT) == 0
            : (name + desc).equals("totalPendingWriteBytes()J");
        return null;
      }
    }, ClassReader.SKIP_CODE);
    return found[0];
  }

  @Override public byte[] transform(ClassLoader loader, String cls, Class<?> loaded, ProtectionDomain domain, byte[] bytes) {
    Part part = cls == null ? null : part(cls);
    if (part == null) return null;
    try {
      // A loader that hides the boot loader's packages (OSGi): what is woven would not find the shim.
      if (loader != null && Class.forName("tare.shim.Shim", false, loader) != Shim.class) return null;
      ClassReader reader = new ClassReader(bytes);
      if (!fits(cls, reader)) return null;
      // A class that is loaded already gets no field: what it makes is nobody's.
      boolean fields = loaded == null && owned(cls);
      ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
      reader.accept(new ClassVisitor(ASM9, writer) {
        @Override public void visit(int version, int access, String name, String signature, String parent, String[] interfaces) {
          if (fields) {
            interfaces = Arrays.copyOf(interfaces, interfaces.length + 1);
            interfaces[interfaces.length - 1] = Code.OWNED;
            if (signature != null) signature += "L" + Code.OWNED + ";";
          }
          super.visit(version, access, name, signature, parent, interfaces);
        }

        @Override public MethodVisitor visitMethod(int access, String name, String desc, String signature, String[] exceptions) {
          MethodVisitor m = super.visitMethod(access, name, desc, signature, exceptions);
          if ((access & (ACC_NATIVE | ACC_ABSTRACT)) != 0 || loader != null && (access & ACC_STATIC) != 0) return m;
          if (fields && made(cls) && name.equals("<init>")) m = new Made(m, cls);
          return part.weave(cls, access, name, desc, m);
        }

        @Override public void visitEnd() {
          if (fields) Code.owned(this, cls);
          super.visitEnd();
        }
      }, 0);
      return writer.toByteArray();
    } catch (ClassNotFoundException e) {
      return null;
    } catch (Throwable t) {
      if (loader == null) { // without a part of the JDK's, others might be linked wrongly
        failed = new Exception(cls, t);
        Shim.stop();
      }
      return null;
    }
  }

  private static MethodVisitor socket(String cls, int access, String name, String desc, MethodVisitor next) {
    char returns = desc.charAt(desc.length() - 1);
    if ((access & ACC_STATIC) != 0 || returns != 'I' && returns != 'J') return next;
    if (WRITES.contains(name)) return new Around(next, cls, desc, "done") {
      @Override void begin() {
        shim("writing", "()V");
      }
    };
    if (READS.contains(name)) return new Around(next, cls, desc, "done") {
      @Override void begin() {
        shim("reading", "()V");
      }

      @Override void end(int opcode) {
        super.visitInsn(opcode == IRETURN ? DUP : DUP2);
        if (opcode == IRETURN) super.visitInsn(I2L);
        shim("received", "(J)V");
      }
    };
    return next;
  }

  private static MethodVisitor produced(String cls, int access, String name, String desc, MethodVisitor next) {
    return name.equals("tryProduce") || name.equals("runTask") || name.equals("invokeAsNonBlocking") ? new Owner(next, cls, desc, 0) : next;
  }

  /** A sender that sends one exchange may go on with the next, in its own loop. */
  private static MethodVisitor sender(String cls, int access, String name, String desc, MethodVisitor next) {
    return (name.equals("sendHeaders") || name.equals("sendContent")) && desc.startsWith("(L" + EXCHANGE + ";") ? new Owner(next, cls, desc, 1) : next;
  }

  private static MethodVisitor exchange(String cls, int access, String name, String desc, MethodVisitor next) {
    return name.equals("send") && desc.startsWith("(Lorg/eclipse/jetty/client/transport/IConnection;L" + EXCHANGE + ";)") ? new Owner(next, cls, desc, 2) : next;
  }

  private static MethodVisitor flush(String cls, int access, String name, String desc, MethodVisitor next) {
    return name.equals("doWrite") && desc.equals("(L" + BUFFER + ";)V") ? new Owner(next, cls, desc, 1) : next;
  }

  private static MethodVisitor pool(String cls, int access, String name, String desc, MethodVisitor next) {
    String taken = "(Ljava/lang/Runnable;)Ljava/lang/Runnable;";
    switch (name) {
      case "execute": // with what may be a wrapper in the queue, and nowhere else
        return cls.equals(POOL) ? new Argument(next, cls, "queued") : next;
      case "remove":
        return cls.equals(POOL) ? new Argument(next, cls, "inQueue") : next;
      case "reject":
        return cls.equals(POOL) ? new Argument(next, null, "unwrap") : next;
      case "drainQueue":
        return new AtReturn(next, "unwrap", "(Ljava/util/List;)Ljava/util/List;");
      case "getTask":
        return new AtReturn(next, "taken", taken);
      case "runWorker":
        return new MethodVisitor(ASM9, next) {
          @Override public void visitFieldInsn(int opcode, String owner, String field, String desc) {
            super.visitFieldInsn(opcode, owner, field, desc);
            if (opcode == GETFIELD && field.equals("firstTask")) super.visitMethodInsn(INVOKESTATIC, Code.SHIM, "taken", taken, false);
          }
        };
      default:
        return next;
    }
  }
}
