package tare.shim;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Starts the shim: all of it, or nothing. Options: dir=WHERE,slots=N for the table; netty. */
public final class Start {
  private static boolean started;

  public static synchronized void start(String options, Instrumentation instrumentation) throws Exception {
    if (started) return; // -javaagent twice, or attached again
    started = true;
    String[] dirs = {"/dev/shm", System.getProperty("java.io.tmpdir", "/tmp")};
    int slots = 4096;
    for (String option : options == null ? new String[0] : options.split(",")) {
      if (option.startsWith("dir=")) dirs = new String[] {option.substring(4)};
      if (option.equals("netty")) Shim.handlers = true;
      if (option.startsWith("slots=")) slots = Integer.parseInt(option.substring(6));
    }
    Table table = null;
    for (int i = 0; table == null; i++) {
      try {
        table = Table.map(new File(dirs[i]), slots);
      } catch (Exception e) {
        if (i == dirs.length - 1) throw e;
      }
    }
    // For virtual threads: a thread local of the kernel's thread and not of the virtual one (JDK 21 and newer).
    Module own = Start.class.getModule();
    instrumentation.redefineModule(Object.class.getModule(), Set.of(own), Map.of("jdk.internal.misc", Set.of(own)), Map.of(), Set.of(), Map.of());
    Module http = ModuleLayer.boot().findModule("java.net.http").orElse(null);
    if (http != null) instrumentation.redefineModule(http, Set.of(own), Map.of(), Map.of(), Set.of(), Map.of());
    Weaver weaver = new Weaver();
    instrumentation.addTransformer(weaver, true);
    List<Class<?>> loaded = new ArrayList<>();
    for (Class<?> c : instrumentation.getAllLoadedClasses()) {
      if (Weaver.weaves(c.getName().replace('.', '/')) && instrumentation.isModifiableClass(c)) loaded.add(c);
    }
    instrumentation.retransformClasses(loaded.toArray(new Class<?>[0]));
    if (weaver.failed != null) throw weaver.failed; // what is woven stays, and does nothing
    Shim.start(table);
  }
}
