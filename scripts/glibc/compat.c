/* Functions of glibc that are newer than 2.17, for static libraries (libstdc++, LLVM) that were compiled on a distribution of today.
   Each part is an object of its own, which the linker takes where its function is called: what a weak symbol finds at run time stays
   the system's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef THREAD_ATEXIT
/* 2.18. On an older one, which only libraries without C++ are promised for, destructors of a thread's variables do not run. */
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library) {
    int (*real)(void (*)(void *), void *, void *);
    *(void **)&real = dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
    return real ? real(destructor, object, library) : -1;
}
#endif

#ifdef RANDOM
/* 2.25. At most 256 bytes, as there. */
int getentropy(void *buffer, size_t length) {
    if (length > 256) {
        errno = EIO;
        return -1;
    }
    for (size_t done = 0; done < length;) {
        long got = syscall(SYS_getrandom, (char *)buffer + done, length - done, 0);
        if (got < 0 && errno != EINTR) return -1;
        if (got > 0) done += (size_t)got;
    }
    return 0;
}

/* 2.36. */
uint32_t arc4random(void) {
    uint32_t number;
    if (getentropy(&number, sizeof number)) abort();
    return number;
}
#endif

#ifdef MEMFD_CREATE
/* 2.27. */
int memfd_create(const char *name, unsigned flags) { return (int)syscall(SYS_memfd_create, name, flags); }
#endif

#ifdef GETTID
/* 2.30. */
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }
#endif

#ifdef SINGLE_THREADED
/* 2.32. Never true is always right: it saves atomic operations. */
char __libc_single_threaded = 0;
#endif

#ifdef MALLINFO2
/* 2.33. Above 2 GiB the old one's numbers are cut, and LLVM shows them in statistics alone. */
struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo old = mallinfo();
    return (struct mallinfo2){
        .arena = (unsigned)old.arena,       .ordblks = (unsigned)old.ordblks,   .smblks = (unsigned)old.smblks,
        .hblks = (unsigned)old.hblks,       .hblkhd = (unsigned)old.hblkhd,     .usmblks = (unsigned)old.usmblks,
        .fsmblks = (unsigned)old.fsmblks,   .uordblks = (unsigned)old.uordblks, .fordblks = (unsigned)old.fordblks,
        .keepcost = (unsigned)old.keepcost,
    };
}
#endif

#ifdef ISOC23
/* 2.38. C23's take the prefix 0b, too; what was compiled for these calls does not ask for it. The names are those of the C
   functions, which headers of 2.38 would replace with these. */
#define OLD(result, name, ...) extern result old_##name(__VA_ARGS__) __asm__(#name)
OLD(long, strtol, const char *, char **, int);
OLD(long long, strtoll, const char *, char **, int);
OLD(unsigned long, strtoul, const char *, char **, int);
OLD(unsigned long long, strtoull, const char *, char **, int);
OLD(int, vsscanf, const char *, const char *, va_list);
long __isoc23_strtol(const char *text, char **end, int base) { return old_strtol(text, end, base); }
long long __isoc23_strtoll(const char *text, char **end, int base) { return old_strtoll(text, end, base); }
unsigned long __isoc23_strtoul(const char *text, char **end, int base) { return old_strtoul(text, end, base); }
unsigned long long __isoc23_strtoull(const char *text, char **end, int base) { return old_strtoull(text, end, base); }
int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = old_vsscanf(text, format, arguments);
    va_end(arguments);
    return result;
}
#endif
