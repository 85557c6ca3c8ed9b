/* A block of thread-local variables for which no thread has room set aside. */
__thread char large[1 << 16] = {1};
