package tare.shim;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Puts calls of the shim into a few classes: where tasks are made and begin, and where sockets are read and written. */
final class Weaver implements ClassFileTransformer, Opcodes {
  private static final String SHIM = "tare/shim/Shim";
  private static final String POOL = "java/util/concurrent/ThreadPoolExecutor";
  /** Tomcat's copy. Its queue is its own, so tasks are not wrapped; but a worker begins each without the token of the one before. */
  private static final String TOMCAT = "org/apache/tomcat/util/threads/ThreadPoolExecutor";
  private static final String FORK_JOIN = "java/util/concurrent/ForkJoinTask";
  /** The part of java.net.http's client that writes a request; its scheduler runs it for whoever comes by. */
  private static final String WRITE = "jdk/internal/net/http/Http1Exchange$Http1Publisher$WriteTask";
  private static final Set<String> TASKS = Set.of("java/lang/Runnable", "java/util/concurrent/Callable", "java/util/function/Supplier",
      "java/util/function/Function", "java/util/function/BiFunction", "java/util/function/Consumer", "java/util/function/BiConsumer");

  /**
   * Tasks with a field for their maker's token. A class that is loaded already gets none: if the agent is attached late, its
   * tasks are not linked.
   */
  private static final Set<String> FIELDS = Set.of(FORK_JOIN, WRITE);

  private interface Part {
    /** What writes a method's code anew; the same visitor if there is nothing to do. */
    MethodVisitor weave(String cls, int access, String name, String desc, MethodVisitor next);
  }

  private static final Map<String, Part> PARTS = Map.of(
      "sun/nio/ch/SocketDispatcher", Weaver::socket,
      "sun/nio/ch/SelectorImpl", (c, a, name, d, m) -> name.equals("lockAndDoSelect") ? new Begin(m, "selecting") : m,
      "java/util/concurrent/FutureTask", (c, a, name, d, m) -> name.equals("<init>") ? new Wrap(m, a, d) : m,
      "java/util/concurrent/CompletableFuture", (c, a, name, d, m) -> name.endsWith("Stage") ? new Wrap(m, a, d) : m,
      "java/util/concurrent/ForkJoinPool", (c, a, name, d, m) -> name.equals("execute") || name.equals("submit") ? new Wrap(m, a, d) : m,
      FORK_JOIN, (c, a, name, d, m) -> ownTask(c, name, d, m, "doExec"),
      "java/lang/VirtualThread", (c, a, name, d, m) -> name.equals("<init>") ? new Wrap(m, a, d) : m,
      POOL, Weaver::pool,
      TOMCAT, Weaver::pool,
      WRITE, (c, a, name, d, m) -> ownTask(c, name, d, m, "run"));

  /** Why a class could not be woven. */
  volatile Exception failed;

  static boolean weaves(String cls) {
    return PARTS.containsKey(cls);
  }

  @Override public byte[] transform(ClassLoader loader, String cls, Class<?> loaded, ProtectionDomain domain, byte[] bytes) {
    Part part = cls == null ? null : PARTS.get(cls);
    if (part == null || cls.equals(WRITE) && loaded != null) return null;
    try {
      // A loader that hides the boot loader's packages (OSGi): what is woven would not find the shim.
      if (loader != null && Class.forName("tare.shim.Shim", false, loader) != Shim.class) return null;
      ClassReader reader = new ClassReader(bytes);
      ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
      reader.accept(new ClassVisitor(ASM9, writer) {
        @Override public MethodVisitor visitMethod(int access, String name, String desc, String signature, String[] exceptions) {
          MethodVisitor m = super.visitMethod(access, name, desc, signature, exceptions);
          if (loaded != null && cls.equals(FORK_JOIN)) return name.equals("doExec") ? nobodys(cls, desc, m) : m;
          return (access & (ACC_NATIVE | ACC_ABSTRACT)) != 0 ? m : part.weave(cls, access, name, desc, m);
        }

        @Override public void visitEnd() {
          if (loaded == null && FIELDS.contains(cls)) visitField(ACC_SYNTHETIC | ACC_TRANSIENT, "tare", "J", null, null);
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
    if ((access & ACC_STATIC) != 0) return next;
    if (name.equals("write") || name.equals("writev")) return new Around(next, cls, desc, "done") {
      @Override void begin() {
        shim("writing", "()V");
      }
    };
    if (name.equals("read") || name.equals("readv")) return new Around(next, cls, desc, "done") {
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

  /** A task without a field. A thread may run it that waits for another, and its token must not be that thread's. */
  private static MethodVisitor nobodys(String cls, String desc, MethodVisitor next) {
    return new Around(next, cls, desc, "leave") {
      @Override void begin() {
        visitInsn(LCONST_0);
        shim("enter", "(J)V");
      }
    };
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
            if (opcode == GETFIELD && field.equals("firstTask")) super.visitMethodInsn(INVOKESTATIC, SHIM, "taken", taken, false);
          }
        };
      default:
        return next;
    }
  }

  private static MethodVisitor ownTask(String cls, String name, String desc, MethodVisitor next, String run) {
    if (name.equals("<init>")) return new MethodVisitor(ASM9, next) {
      @Override public void visitInsn(int opcode) {
        if (opcode == RETURN) {
          super.visitVarInsn(ALOAD, 0);
          super.visitMethodInsn(INVOKESTATIC, SHIM, "current", "()J", false);
          super.visitFieldInsn(PUTFIELD, cls, "tare", "J");
        }
        super.visitInsn(opcode);
      }
    };
    return !name.equals(run) ? next : new Around(next, cls, desc, "leave") {
      @Override void begin() {
        visitVarInsn(ALOAD, 0);
        visitFieldInsn(GETFIELD, cls, "tare", "J");
        shim("enter", "(J)V");
      }
    };
  }

  private static class Begin extends MethodVisitor {
    private final String call;

    Begin(MethodVisitor next, String call) {
      super(ASM9, next);
      this.call = call;
    }

    @Override public void visitCode() {
      super.visitCode();
      visitMethodInsn(INVOKESTATIC, SHIM, call, "()V", false);
    }
  }

  /** begin() first; at each return end(), and when an exception passes the call last. */
  private abstract static class Around extends MethodVisitor {
    private final Label start = new Label();
    private final String cls;
    private final String desc;
    private final String last;

    Around(MethodVisitor next, String cls, String desc, String last) {
      super(ASM9, next);
      this.cls = cls;
      this.desc = desc;
      this.last = last;
    }

    abstract void begin();

    void end(int opcode) {
      shim(last, "()V");
    }

    final void shim(String call, String desc) {
      super.visitMethodInsn(INVOKESTATIC, SHIM, call, desc, false);
    }

    @Override public void visitCode() {
      super.visitCode();
      begin();
      visitLabel(start);
    }

    @Override public void visitInsn(int opcode) {
      if (opcode >= IRETURN && opcode <= RETURN) end(opcode);
      super.visitInsn(opcode);
    }

    @Override public void visitMaxs(int stack, int locals) {
      Label handler = new Label();
      visitTryCatchBlock(start, handler, handler, null);
      visitLabel(handler);
      Type[] arguments = Type.getArgumentTypes(desc);
      Object[] frame = new Object[arguments.length + 1];
      frame[0] = cls;
      for (int i = 0; i < arguments.length; i++) {
        int sort = arguments[i].getSort();
        frame[i + 1] = sort == Type.LONG ? LONG : sort == Type.INT ? INTEGER : arguments[i].getInternalName();
      }
      visitFrame(F_FULL, frame.length, frame, 1, new Object[] {"java/lang/Throwable"});
      shim(last, "()V");
      super.visitInsn(ATHROW);
      super.visitMaxs(stack, locals);
    }
  }

  /** Wraps all arguments that are tasks. */
  private static final class Wrap extends MethodVisitor {
    private final int access;
    private final String desc;

    Wrap(MethodVisitor next, int access, String desc) {
      super(ASM9, next);
      this.access = access;
      this.desc = desc;
    }

    @Override public void visitCode() {
      super.visitCode();
      int at = (access & ACC_STATIC) != 0 ? 0 : 1;
      for (Type t : Type.getArgumentTypes(desc)) {
        if (t.getSort() == Type.OBJECT && TASKS.contains(t.getInternalName())) {
          visitVarInsn(ALOAD, at);
          visitMethodInsn(INVOKESTATIC, SHIM, "wrap", "(Ljava/lang/Object;)Ljava/lang/Object;", false);
          visitTypeInsn(CHECKCAST, t.getInternalName());
          visitVarInsn(ASTORE, at);
        }
        at += t.getSize();
      }
    }
  }

  /** Replaces the first argument, a task, by what a call makes of it; with the pool's queue, if cls is the pool. */
  private static final class Argument extends MethodVisitor {
    private final String cls;
    private final String call;

    Argument(MethodVisitor next, String cls, String call) {
      super(ASM9, next);
      this.cls = cls;
      this.call = call;
    }

    @Override public void visitCode() {
      super.visitCode();
      if (cls != null) {
        visitVarInsn(ALOAD, 0);
        visitFieldInsn(GETFIELD, cls, "workQueue", "Ljava/util/concurrent/BlockingQueue;");
      }
      visitVarInsn(ALOAD, 1);
      visitMethodInsn(INVOKESTATIC, SHIM, call,
          (cls != null ? "(Ljava/util/Queue;" : "(") + "Ljava/lang/Runnable;)Ljava/lang/Runnable;", false);
      visitVarInsn(ASTORE, 1);
    }
  }

  /** Replaces what is returned. */
  private static final class AtReturn extends MethodVisitor {
    private final String call;
    private final String desc;

    AtReturn(MethodVisitor next, String call, String desc) {
      super(ASM9, next);
      this.call = call;
      this.desc = desc;
    }

    @Override public void visitInsn(int opcode) {
      if (opcode == ARETURN) super.visitMethodInsn(INVOKESTATIC, SHIM, call, desc, false);
      super.visitInsn(opcode);
    }
  }
}
