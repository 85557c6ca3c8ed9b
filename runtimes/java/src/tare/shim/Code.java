package tare.shim;

import java.util.Set;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** What is put into methods. */
final class Code implements Opcodes {
  static final String SHIM = "tare/shim/Shim";
  static final String OWNED = "tare/shim/Owned";
  private static final Set<String> TASKS = Set.of("java/lang/Runnable", "java/util/concurrent/Callable", "java/util/function/Supplier",
      "java/util/function/Function", "java/util/function/BiFunction", "java/util/function/Consumer", "java/util/function/BiConsumer");

  private Code() {}

  static final String OBJECT = "(Ljava/lang/Object;)V";

  /** A field for a token, and what reads and writes it. */
  static void owned(ClassVisitor to, String cls) {
    to.visitField(ACC_SYNTHETIC | ACC_TRANSIENT, "tare", "J", null, null);
    MethodVisitor get = to.visitMethod(ACC_PUBLIC | ACC_SYNTHETIC, "tare", "()J", null, null);
    get.visitCode();
    get.visitVarInsn(ALOAD, 0);
    get.visitFieldInsn(GETFIELD, cls, "tare", "J");
    get.visitInsn(LRETURN);
    get.visitMaxs(2, 1);
    get.visitEnd();
    MethodVisitor set = to.visitMethod(ACC_PUBLIC | ACC_SYNTHETIC, "tare", "(J)V", null, null);
    set.visitCode();
    set.visitVarInsn(ALOAD, 0);
    set.visitVarInsn(LLOAD, 1);
    set.visitFieldInsn(PUTFIELD, cls, "tare", "J");
    set.visitInsn(RETURN);
    set.visitMaxs(3, 3);
    set.visitEnd();
  }

  /** Objects have their maker's token. */
  static final class Made extends MethodVisitor {
    private final String cls;

    Made(MethodVisitor next, String cls) {
      super(ASM9, next);
      this.cls = cls;
    }

    @Override public void visitInsn(int opcode) {
      if (opcode == RETURN) {
        super.visitVarInsn(ALOAD, 0);
        super.visitMethodInsn(INVOKESTATIC, SHIM, "current", "()J", false);
        super.visitFieldInsn(PUTFIELD, cls, "tare", "J");
      }
      super.visitInsn(opcode);
    }
  }

  /** A call first: of nothing, or of the object. */
  static class Begin extends MethodVisitor {
    private final String call;
    private final String with;

    Begin(MethodVisitor next, String call) {
      this(next, call, "()V");
    }

    Begin(MethodVisitor next, String call, String with) {
      super(ASM9, next);
      this.call = call;
      this.with = with;
    }

    @Override public void visitCode() {
      super.visitCode();
      if (with.equals(OBJECT)) visitVarInsn(ALOAD, 0);
      visitMethodInsn(INVOKESTATIC, SHIM, call, with, false);
    }
  }

  /** A message, with its size, comes into a buffer. */
  static final class Buffered extends MethodVisitor {
    Buffered(MethodVisitor next) {
      super(ASM9, next);
    }

    @Override public void visitCode() {
      super.visitCode();
      visitVarInsn(ALOAD, 0);
      visitInsn(DUP);
      visitMethodInsn(INVOKEVIRTUAL, "io/netty/channel/ChannelOutboundBuffer", "totalPendingWriteBytes", "()J", false);
      visitVarInsn(ILOAD, 2);
      visitMethodInsn(INVOKESTATIC, SHIM, "buffered", "(Ljava/lang/Object;JI)V", false);
    }
  }

  /** begin() first; at each return end(), and when an exception passes the call last. */
  abstract static class Around extends MethodVisitor {
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
        frame[i + 1] = type(arguments[i]);
      }
      visitFrame(F_FULL, frame.length, frame, 1, new Object[] {"java/lang/Throwable"});
      shim(last, "()V");
      super.visitInsn(ATHROW);
      super.visitMaxs(stack, locals);
    }
  }

  /** The method is the work of who owns a variable's object: 0 is this. */
  static final class Owner extends Around {
    private final int variable;
    private final String call;

    Owner(MethodVisitor next, String cls, String desc, int variable) {
      this(next, cls, desc, variable, "enter");
    }

    Owner(MethodVisitor next, String cls, String desc, int variable, String call) {
      super(next, cls, desc, "leave");
      this.variable = variable;
      this.call = call;
    }

    @Override void begin() {
      visitVarInsn(ALOAD, variable);
      shim(call, OBJECT);
    }
  }

  /** A loop of Netty's turns to a connection. */
  static final class Turn extends Around {
    Turn(MethodVisitor next, String cls, String desc) {
      super(next, cls, desc, "leave");
    }

    @Override void begin() {
      visitVarInsn(ALOAD, 0);
      visitMethodInsn(INVOKEINTERFACE, "io/netty/channel/Channel$Unsafe", "outboundBuffer", "()Lio/netty/channel/ChannelOutboundBuffer;", true);
      shim("turn", OBJECT);
    }
  }

  /** The work of the request that was read. */
  static final class Known extends Around {
    Known(MethodVisitor next, String cls, String desc) {
      super(next, cls, desc, "leave");
    }

    @Override void begin() {
      shim("known", "()V");
    }
  }

  private static Object type(Type t) {
    switch (t.getSort()) {
      case Type.LONG:
        return LONG;
      case Type.DOUBLE:
        return DOUBLE;
      case Type.FLOAT:
        return FLOAT;
      case Type.OBJECT:
      case Type.ARRAY:
        return t.getInternalName();
      default:
        return INTEGER;
    }
  }

  /** Wraps all arguments that are tasks. */
  static final class Wrap extends MethodVisitor {
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
  static final class Argument extends MethodVisitor {
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
  static final class AtReturn extends MethodVisitor {
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
