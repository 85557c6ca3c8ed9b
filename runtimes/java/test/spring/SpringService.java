import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/** SpringService KIND BACKEND: methods that Spring calls in a pool, in a thread for each, and by a timer of its own. */
public class SpringService {
  public static class Work {
    @Async("pool") public CompletableFuture<Integer> pooled(int n) {
      Service.call(n);
      return CompletableFuture.completedFuture(n);
    }

    @Async("threads") public CompletableFuture<Integer> threaded(int n) {
      Service.call(n);
      return CompletableFuture.completedFuture(n);
    }
  }

  @Configuration @EnableAsync public static class Beans {
    @Bean public Work work() {
      return new Work();
    }

    @Bean public ThreadPoolTaskExecutor pool() {
      var pool = new ThreadPoolTaskExecutor();
      pool.setCorePoolSize(4);
      return pool;
    }

    @Bean public SimpleAsyncTaskExecutor threads() {
      return new SimpleAsyncTaskExecutor("thread-");
    }
  }

  public static void main(String[] args) throws Exception {
    Service.backend = "http://127.0.0.1:" + args[1] + "/b/";
    System.setProperty("http.maxConnections", "64");
    var context = new AnnotationConfigApplicationContext(Beans.class);
    var work = context.getBean(Work.class);
    var threads = context.getBean(SimpleAsyncTaskExecutor.class);
    Service.serve(Executors.newFixedThreadPool(16), (n, answer) -> {
      work.pooled(n).thenCombine(work.threaded(n), (a, b) -> a).get();
      threads.execute(() -> {
        Service.call(n);
        answer.send(null);
      });
    });
  }
}
