import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.commons.ClassRemapper;
import org.objectweb.asm.commons.Remapper;

/** Shade CLASSES ASM_JAR OUT: copies classes, and moves ASM's into a package of our own, where it meets no other version. */
public class Shade {
  static final String FROM = "org/objectweb/asm/";
  static final String TO = "tare/shim/asm/";
  static final Remapper MOVED = new Remapper() {
    @Override public String map(String name) {
      return name.startsWith(FROM) ? TO + name.substring(FROM.length()) : name;
    }
  };

  public static void main(String[] args) throws IOException {
    Path classes = Path.of(args[0]), out = Path.of(args[2]);
    try (Stream<Path> files = Files.walk(classes)) {
      for (Path p : (Iterable<Path>) files.filter(f -> f.toString().endsWith(".class"))::iterator) {
        write(out, Files.readAllBytes(p));
      }
    }
    try (JarFile asm = new JarFile(args[1])) {
      for (var e : (Iterable<java.util.jar.JarEntry>) asm.stream()::iterator) {
        String name = e.getName();
        if (name.startsWith(FROM) && name.endsWith(".class")) write(out, asm.getInputStream(e).readAllBytes());
      }
    }
  }

  static void write(Path out, byte[] bytes) throws IOException {
    ClassReader reader = new ClassReader(bytes);
    ClassWriter writer = new ClassWriter(0);
    reader.accept(new ClassRemapper(writer, MOVED), 0);
    Path to = out.resolve(MOVED.map(reader.getClassName()) + ".class");
    Files.createDirectories(to.getParent());
    Files.write(to, writer.toByteArray());
  }
}
