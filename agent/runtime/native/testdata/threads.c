// Threads with values of their own under a pthread key, in the executable and in
// modules that are loaded later; what each prints, the test finds again.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __thread volatile long before, own;
static pthread_key_t key;
static void (*set[4])(long);
static int modules;
static pthread_barrier_t all;

static void *run(void *arg) {
  static char values[4];
  long me = (long)&values[(long)arg];
  pthread_setspecific(key, (void *)me);
  own = me;
  for (int i = 0; i < modules; i++)
    set[i](me);
  printf("%lu %d %ld\n", (unsigned long)pthread_self(), gettid(), me);
  pthread_barrier_wait(&all);
  pause();
  return (void *)before;
}

int main(int argc, char **argv) {
  int n = atoi(argv[1]);
  for (int i = 0; i <= n; i++) // of which the last is used
    pthread_key_create(&key, NULL);
  for (modules = 0; modules + 2 < argc; modules++) {
    void *m = dlopen(argv[modules + 2], RTLD_NOW);
    if (!m || !(set[modules] = dlsym(m, "set")))
      return puts(dlerror()), 1;
  }
  pthread_barrier_init(&all, NULL, 4);
  pthread_t t;
  for (long i = 1; i < 4; i++)
    pthread_create(&t, NULL, run, (void *)i);
  pthread_barrier_wait(&all);
  puts("ready");
  fflush(stdout);
  pause();
}
