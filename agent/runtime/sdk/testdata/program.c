/*
 * Publishes in threads, some of which begin before the library is loaded, and says where: a line for
 * each thread, of its thread pointer and of what its variable holds. Arguments: the library, or "" if
 * the variable is in the executable; then the schema that the process's context names, or nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define THREADS 6

static char records[THREADS][32];
static pthread_barrier_t loaded, shown;
static void (*set)(void *);

#ifdef EXE
void publish(void *record);
#endif

static void *run(void *p)
{
	long n = (long)p;
	pthread_barrier_wait(&loaded);
	if (n != 0) /* one publishes nothing */
		set(records[n]);
	printf("%lu %lu\n", (unsigned long)__builtin_thread_pointer(), n ? (unsigned long)records[n] : 0);
	pthread_barrier_wait(&shown);
	pause();
	return 0;
}

static unsigned char *string(unsigned char *to, int field, const void *text, size_t n)
{
	*to++ = field << 3 | 2;
	*to++ = n;
	memcpy(to, text, n);
	return to + n;
}

/* The context of OTEP 4719: a Resource with one attribute, whose header is in a mapping of its own. */
static void context(const char *schema)
{
	static unsigned char value[64], attribute[128], resource[192];
	const char *key = "threadlocal.schema_version";
	unsigned char *v = string(value, 1, schema, strlen(schema));
	unsigned char *a = string(attribute, 1, key, strlen(key));
	a = string(a, 2, value, v - value);
	unsigned char *r = string(resource, 1, attribute, a - attribute);
	struct {
		char signature[8];
		uint32_t version, size;
		uint64_t published;
		void *payload;
	} head = {"", 2, r - resource, 1700000000000000000, resource};
	int fd = memfd_create("OTEL_CTX", 0);
	if (fd < 0 || ftruncate(fd, 4096))
		exit(1);
	char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	memcpy(head.signature, "OTEL_CTX", 8);
	memcpy(at, &head, sizeof(head));
}

int main(int n, char **argv)
{
	pthread_t t;
	pthread_barrier_init(&loaded, 0, THREADS + 1);
	pthread_barrier_init(&shown, 0, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t, 0, run, (void *)i);
#ifdef EXE
	set = publish;
#else
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	set = (void (*)(void *))dlsym(library, "publish");
#endif
	if (n > 2)
		context(argv[2]);
	pthread_barrier_wait(&loaded);
	pthread_barrier_wait(&shown);
	printf("ready\n");
	fflush(stdout);
	pause();
}
