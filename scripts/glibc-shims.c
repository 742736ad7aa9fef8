// What glibc got after 2.17 and archives of newer distributions ask for (arc4random, mallinfo2, __libc_single_threaded), or this
// project itself (gettid, close_range). zig-linker links it where programs are to run with an older glibc. It includes no header
// of glibc's, which may declare the same.
#define LOCAL __attribute__((visibility("hidden")))

// Numbers of Linux on x86-64.
enum { GETTID = 186, GETRANDOM = 318, CLOSE_RANGE = 436 };

extern long syscall(long, ...);
extern void abort(void);

// Without getrandom (Linux 3.17) there is nothing that could stand in for it.
LOCAL unsigned arc4random(void) {
  unsigned number;
  if (syscall(GETRANDOM, &number, sizeof number, 0) != sizeof number)
    abort();
  return number;
}

// Of the old counters, which are exact below 2 GiB; LLVM prints them on request.
struct mallinfo_of_ints {
  int numbers[10];
};
struct mallinfo_of_sizes {
  unsigned long numbers[10];
};
extern struct mallinfo_of_ints mallinfo(void);
LOCAL struct mallinfo_of_sizes mallinfo2(void) {
  struct mallinfo_of_ints old = mallinfo();
  struct mallinfo_of_sizes wide;
  for (int at = 0; at < 10; ++at)
    wide.numbers[at] = (unsigned)old.numbers[at];
  return wide;
}

// That there may be other threads is always true enough.
LOCAL char __libc_single_threaded = 0;

LOCAL int gettid(void) { return (int)syscall(GETTID); }

LOCAL int close_range(unsigned first, unsigned last, int flags) { return (int)syscall(CLOSE_RANGE, first, last, flags); }
