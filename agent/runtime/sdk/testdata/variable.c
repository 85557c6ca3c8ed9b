/* The variable that an SDK exports (OTEP 4947), with a block around it. */
#include <stdint.h>

static __thread char before[24];
__thread void *otel_thread_ctx_v1;

void publish(void *record)
{
	before[0] = 1;
	otel_thread_ctx_v1 = record;
}
