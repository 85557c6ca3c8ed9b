package tare.shim;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.util.jar.JarFile;

/**
 * Where the JVM enters. Classes of the JDK call the shim, so the boot loader must have it: this class, which the
 * application's loader has, only puts its own jar there. Nothing that fails here or there stops the application.
 */
public final class Agent {
  public static void premain(String options, Instrumentation instrumentation) {
    agentmain(options, instrumentation);
  }

  public static void agentmain(String options, Instrumentation instrumentation) {
    try {
      if ("off".equals(System.getenv("TARE_SHIM"))) return;
      File jar = new File(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
      instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(jar));
      Class.forName("tare.shim.Start", true, null)
          .getMethod("start", String.class, Instrumentation.class).invoke(null, options, instrumentation);
    } catch (Throwable t) {
      System.err.println("tare: not linked: " + (t instanceof InvocationTargetException ? t.getCause() : t));
    }
  }
}
