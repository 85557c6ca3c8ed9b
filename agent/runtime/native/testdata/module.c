static __thread long before = 7, value;
void set(long x) { value = x; }
long get(void) { return before + value; }
