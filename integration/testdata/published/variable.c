/* The thread-local variable by which an SDK says which span is current (OTEP 4947). */
__thread void *otel_thread_ctx_v1;

void publish(void *record)
{
	*(void *volatile *)&otel_thread_ctx_v1 = record;
}
