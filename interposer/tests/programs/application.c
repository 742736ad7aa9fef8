// Launches kernels of the stand-in driver. Arguments: how to find the driver (linked, dlsym, proc), how to end (return,
// leave, fork, or return after an event: children of a parent with working threads, a capture, refused launches, memory
// of other interfaces, shared memory, or a signal), and further kernels to launch.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned status;
typedef unsigned long long address;

status cuInit(unsigned);
status cuMemAlloc_v2(address *, size_t);
status cuMemFree_v2(address);
status cuMemGetInfo_v2(size_t *, size_t *);
status cuMemGetAddressRange_v2(address *, size_t *, address);
status cuMemcpyHtoD_v2(address, const void *, size_t);
status cuMemcpyDtoH_v2(void *, address, size_t);
status cuMemFreeAsync(address, void *);
status cuStreamBeginCapture_v2(void *, int);
status cuStreamEndCapture(void *, void **);
status cuStreamBeginRecaptureToGraph(void *, int, void *, void *, void *);
status cuStreamBeginCaptureToCig(void *, void *);
status cuStreamEndCaptureToCig(void *);
status cuExternalMemoryGetMappedBuffer(address *, void *, const unsigned long long *);
status cuGraphicsResourceGetMappedPointer_v2(address *, size_t *, void *);
status cuGraphicsUnmapResources(unsigned, void **, void *);
status cuCtxSynchronize(void);
typedef struct { char bytes[64]; } handle;
status cuIpcGetMemHandle(handle *, address);
status cuLibraryLoadData(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
status cuLibraryGetKernel(void **, void *, const char *);
status cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

#define FUNCTIONS(F) \
    F(cuMemAlloc, _v2) F(cuMemFree, _v2) F(cuMemGetInfo, _v2) F(cuMemGetAddressRange, _v2) F(cuMemcpyHtoD, _v2) F(cuMemcpyDtoH, _v2) \
    F(cuLibraryLoadData, ) F(cuLibraryGetKernel, ) F(cuLaunchKernel, ) \
    F(cuMemFreeAsync, ) F(cuStreamBeginCapture, _v2) F(cuStreamEndCapture, ) \
    F(cuStreamBeginRecaptureToGraph, ) F(cuStreamBeginCaptureToCig, ) F(cuStreamEndCaptureToCig, ) \
    F(cuExternalMemoryGetMappedBuffer, ) F(cuGraphicsResourceGetMappedPointer, _v2) F(cuGraphicsUnmapResources, )

#define DECLARE(name, suffix) static __typeof__(name##suffix) *p_##name;
FUNCTIONS(DECLARE)
DECLARE(cuIpcGetMemHandle, )

// The section with the IR, and an image in the same object that represents the fat binary.
__asm__(".section .mneme.ir,\"aR\"\n.balign 8\n.incbin \"" IR_FILE "\"\n.previous\n");
static const unsigned long image[4] = {1, 2, 3, 4};

static void bind(const char *door) {
#define LINKED(name, suffix) p_##name = name##suffix;
#define DLSYM(name, suffix) p_##name = dlsym(library, #name #suffix);
#define PROC(name, suffix) proc(#name, (void **)&p_##name, 12000, 0, NULL);
    if (!strcmp(door, "linked")) {
        FUNCTIONS(LINKED)
#ifdef SHARES // Only in this program, because the import identifies it.
        LINKED(cuIpcGetMemHandle, )
#endif
        return;
    }
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!strcmp(door, "dlsym")) {
        FUNCTIONS(DLSYM)
        DLSYM(cuIpcGetMemHandle, )
        return;
    }
    status (*proc)(const char *, void **, int, unsigned long long, unsigned *) = dlsym(library, "cuGetProcAddress_v2");
    FUNCTIONS(PROC)
    PROC(cuIpcGetMemHandle, )
}

// The image to load: the static one, or a file's contents in a temporary buffer.
static status load(void **library) {
    const char *name = getenv("IMAGE_FILE");
    if (!name)
        return p_cuLibraryLoadData(library, image, NULL, NULL, 0, NULL, NULL, 0);
    FILE *file = fopen(name, "rb");
    char *buffer = calloc(1, 1 << 20);
    size_t length = fread(buffer, 1, (1 << 20) - 1, file);
    fclose(file);
    status result = p_cuLibraryLoadData(library, buffer, NULL, NULL, 0, NULL, NULL, 0);
    memset(buffer, 0xff, length);
    free(buffer);
    return result;
}

static volatile int stop;

static void *allocate_and_free(void *unused) {
    while (!stop) {
        address one;
        if (!p_cuMemAlloc(&one, 1000))
            p_cuMemFree(one);
    }
    return NULL;
}

// The action of SIGTERM before this program, determined in several ways.
static void (*before)(int);

static void end(int number) {
    static const char text[] = "handled\n";
    static volatile sig_atomic_t calls;
    if (++calls == 10)
        _exit(99); // for ever
    write(STDOUT_FILENO, text, sizeof text - 1);
    if (before != SIG_DFL) {
        before(number);
        return;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void live_on(int number) {
    if (before != SIG_DFL)
        before(number);
}

static void (*asked_of_the_system(int number))(int) {
    struct { void (*handler)(int); unsigned long flags; void *restorer; unsigned long mask; } action = {0};
    syscall(SYS_rt_sigaction, number, NULL, &action, sizeof action.mask);
    return action.handler;
}

static void chain(const char *how) {
    struct sigaction action = {.sa_handler = strcmp(how, "-lives") ? end : live_on};
    if (!strcmp(how, "-old")) {
        before = signal(SIGTERM, end);
    } else if (!strcmp(how, "-system")) {
        before = asked_of_the_system(SIGTERM);
        sigaction(SIGTERM, &action, NULL);
    } else if (!strcmp(how, "-restored")) {
        signal(SIGTERM, SIG_IGN);
        sigaction(SIGTERM, &(struct sigaction){.sa_handler = SIG_DFL}, &action);
        printf("ignored %d\n", action.sa_handler == SIG_IGN);
        sigaction(SIGTERM, NULL, &action);
        printf("default %d, of the system %d\n", action.sa_handler == SIG_DFL, asked_of_the_system(SIGTERM) == SIG_DFL);
    } else {
        struct sigaction old;
        sigaction(SIGTERM, &action, &old);
        before = old.sa_handler;
    }
    printf("chains to %s\n", strcmp(how, "-system") && before != SIG_DFL ? "a handler" : "what there was");
    fflush(stdout);
    raise(SIGTERM);
    printf("lives on\n");
}

static address of_threads;
static void *of_kernel;

static status launch(int count) {
    void *parameters[] = {&of_threads, &count};
    return p_cuLaunchKernel(of_kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
}

// Each kind of call, by a thread that will be cancelled.
static void *call_cancelled(void *kind) {
    address one;
    int word;
    pthread_cancel(pthread_self());
    switch ((long)kind) {
    case 0: launch(70); break;  // a new instance
    case 1: launch(10); break;  // a counted one
    case 2: p_cuMemAlloc(&one, 1000); break;
    case 3: p_cuMemcpyDtoH(&word, of_threads, sizeof word); break;
    case 4: bind("proc"); break;
    }
    for (;;)
        pause();
}

static void cancel_threads(void) {
    for (long kind = 0; kind < 5; ++kind) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, call_cancelled, (void *)kind);
        pthread_join(thread, &result);
        printf("call %ld: %s\n", kind, result == PTHREAD_CANCELED ? "cancelled" : "lives on");
    }
    printf("launch %u\n", launch(80));
}

static sigjmp_buf way_out;

static void leave(int number) { siglongjmp(way_out, number); }

// Deeper than the abandoned call, and not.
static __attribute__((noinline)) status launch_below(int count, int depth) {
    volatile char room[4000];
    room[depth] = (char)depth;
    return depth ? launch_below(count, depth - 1) : launch(count);
}

static void jump_out(void) {
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = leave, .sa_flags = SA_NODEFER}, NULL);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = leave, .sa_flags = SA_NODEFER}, NULL);
    int word;
    for (int round = 0; round < 6; ++round) {
        setenv("FAKE_INTERRUPTION", getenv("JUMP"), 1);
        volatile int left = sigsetjmp(way_out, 0);
        if (!left)
            round % 3 == 0 ? launch(10) : round % 3 == 1 ? p_cuMemcpyDtoH(&word, of_threads, sizeof word) : launch(200 + round);
        unsetenv("FAKE_INTERRUPTION");
        sigset_t blocked;
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
        printf("left %d, blocked %d, launch %u\n", left != 0, sigismember(&blocked, SIGALRM), round % 2 ? launch(300 + round) : launch_below(300 + round, 9));
    }
}

// Signals that come while a launch is recorded.
static volatile int main_takes, others_take, is_there;

static void take(int number) {
    if (syscall(SYS_gettid) == getpid())
        ++main_takes;
    else
        ++others_take;
}

static void *wait_for_signals(void *unused) {
    is_there = 1;
    for (;;)
        pause();
}

// How many other threads would take a signal.
static int takers(int number) {
    int count = 0;
    char path[300], line[200];
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *thread; (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", thread->d_name);
        FILE *status = thread->d_name[0] == '.' || atoi(thread->d_name) == syscall(SYS_gettid) ? NULL : fopen(path, "r");
        unsigned long blocked;
        while (status && fgets(line, sizeof line, status))
            count += sscanf(line, "SigBlk: %lx", &blocked) == 1 && !(blocked >> (number - 1) & 1);
        if (status)
            fclose(status);
    }
    closedir(threads);
    return count;
}

static void *launch_interrupted(void *how) {
    main_takes = others_take = 0;
    setenv("FAKE_INTERRUPTION", how, 1);
    for (int i = 0; i < 4; ++i)
        launch(1000 + 10 * i + (int)(strlen(how) + (syscall(SYS_gettid) == getpid())));
    unsetenv("FAKE_INTERRUPTION");
    printf("%s: %d by the main thread, %d by others\n", (char *)how, main_takes, others_take);
    return NULL;
}

static void take_signals(const char *how) {
    pthread_t thread;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = take}, NULL);
    if (!strcmp(how, "-alone")) {
        launch_interrupted("process-signal");
        for (int number = 1; number < 32; ++number)
            if (number != SIGKILL && number != SIGSTOP && takers(number))
                printf("another thread takes signal %d\n", number);
        return;
    }
    if (!strcmp(how, "-thread")) {
        for (int i = 0; i < 2; ++i) {
            pthread_create(&thread, NULL, launch_interrupted, i ? "signal" : "timer");
            pthread_join(thread, NULL);
        }
        return;
    }
    pthread_create(&thread, NULL, wait_for_signals, NULL);
    while (!is_there)
        sched_yield();
    launch_interrupted("process-signal");
    launch_interrupted("timer");
}

// A limit on the address space below its present use.
static void limit_memory(void) {
    setrlimit(RLIMIT_AS, &(struct rlimit){1 << 20, 1 << 20});
    for (int i = 0; i < 9; ++i)
        printf("launch %u\n", launch(2000 + i));
}

// A heap with one lock. The signal that ends the program arrives while the lock is held, so every use of the heap hangs.
void *__libc_malloc(size_t);
void __libc_free(void *);
static volatile int heap_is_locked;
static __thread int signal_in_heap;

static void wait_for_heap(void) {
    while (heap_is_locked)
        usleep(1000);
}

void *malloc(size_t size) {
    wait_for_heap();
    if (signal_in_heap) {
        heap_is_locked = 1;
        raise(signal_in_heap);
    }
    return __libc_malloc(size);
}

void free(void *place) {
    wait_for_heap();
    __libc_free(place);
}

static void leave_at_once(int number) { _exit(number == SIGUSR1 ? 7 : 8); }

static void become_another(int number) { execl("/bin/sh", "sh", "-c", "exit 7", NULL); }

static void leave_from_heap(const char *how) {
    launch(800);
    alarm(60);
    signal(SIGUSR1, strcmp(how, "-exit") ? become_another : leave_at_once);
    signal_in_heap = SIGUSR1;
    void *volatile place = malloc(10);
}

static void use_descriptors(const char *folder) {
    enum { FILES = 40 };
    int files[FILES];
    char path[4096], text[2] = {0};
    close_range(3, ~0u, 0);
    for (int i = 0; i < FILES; ++i) {
        snprintf(path, sizeof path, "%s/own-%d", folder, i);
        files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (write(files[i], "a", 1) != 1)
            exit(20);
    }
    for (int i = 0; i < 4; ++i)
        launch(400 + i);
    usleep(300000);
    int right = 0;
    for (int i = 0; i < FILES; ++i)
        right += lseek(files[i], 0, SEEK_END) == 1 && pread(files[i], text, 2, 0) == 1 && text[0] == 'a' && write(files[i], "b", 1) == 1;
    printf("%d files are right\n", right);
}

int main(int argc, char **argv) {
    if (!strcmp(argv[2], "descriptors-few"))
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){100, 100});
    bind(argv[1]);
    enum { COUNT = 50000 };
    static int data[COUNT];
    address memory, zeros;
    if (p_cuMemAlloc(&memory, sizeof data) || p_cuMemAlloc(&zeros, 300000))
        return 10;
    if (p_cuMemcpyHtoD(memory, data, sizeof data))
        return 11;
    address base = 0;
    size_t size = 0, left = 0, total = 0;
    p_cuMemGetAddressRange(&base, &size, memory + 1000);
    p_cuMemGetInfo(&left, &total);
    printf("address %#llx range %#llx+%zu\n", memory, base, size);
    void *library, *kernel;
    if (load(&library) || p_cuLibraryGetKernel(&kernel, library, "_Z3addPii"))
        return 12;
    int counts[] = {COUNT, COUNT, 10};
    for (int i = 0; i < 3; ++i) {
        void *parameters[] = {&memory, &counts[i]};
        if (p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL))
            return 13;
    }
    if (p_cuMemcpyDtoH(data, memory, sizeof data))
        return 14;
    printf("result %d %d\n", data[0], data[COUNT - 1]);
    for (int i = 3; i < argc && strncmp(argv[2], "descriptors", 11); ++i) {
        int count = 1;
        void *parameters[] = {&memory, &count};
        if (!strcmp(argv[i], "host")) { // does the work that spinning kernels wait for
            printf("host: %u\n", p_cuMemcpyDtoH(data, memory, 4));
            continue;
        }
        p_cuLibraryGetKernel(&kernel, library, argv[i]);
        printf("%s: %u\n", argv[i], p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    }
    if (!strncmp(argv[2], "capture", 7)) {
        int again = !strcmp(argv[2], "capture-again"), graphics = !strcmp(argv[2], "capture-graphics");
        void *stream = (void *)0x99, *graph, *parameters[] = {&memory, &(int){20}};
        address other, another;
        p_cuMemAlloc(&other, 1000);
        p_cuMemAlloc(&another, 1000);
        status begun = again ? p_cuStreamBeginRecaptureToGraph(stream, 2, NULL, NULL, NULL)
                             : graphics ? p_cuStreamBeginCaptureToCig(stream, NULL) : p_cuStreamBeginCapture(stream, 2);
        status launched = p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
        status freed = p_cuMemFree(other);
        status ended = graphics ? p_cuStreamEndCaptureToCig(stream) : p_cuStreamEndCapture(stream, &graph);
        printf("capture %u launch %u free %u end %u\n", begun, launched, freed, ended);
        parameters[1] = &(int){30};
        printf("launch %u", p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
        printf(" free %u\n", p_cuMemFreeAsync(another, stream));
    }
    if (!strcmp(argv[2], "external")) {
        address buffer, pixels;
        void *resource = (void *)7;
        status given = p_cuExternalMemoryGetMappedBuffer(&buffer, NULL, (unsigned long long[]){0, 4000});
        p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&buffer, &(int){40}}, NULL);
        given += p_cuMemFree(buffer) + p_cuGraphicsResourceGetMappedPointer(&pixels, &size, resource);
        p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&pixels, &(int){50}}, NULL);
        given += p_cuGraphicsUnmapResources(1, &resource, NULL);
        p_cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&memory, &(int){60}}, NULL);
        printf("external %u\n", given);
    }
    if (!strcmp(argv[2], "refused")) {
        // Each refused one twice, to check that later launches continue.
        static const unsigned shapes[][2] = {{0, 32}, {1, 2048}, {0, 32}, {1, 2048}, {1, 32}};
        for (int i = 0; i < 5; ++i) {
            void *parameters[] = {&memory, &(int){40}};
            printf("launch %u\n", p_cuLaunchKernel(kernel, shapes[i][0], 1, 1, shapes[i][1], 1, 1, 0, NULL, parameters, NULL));
        }
    }
    if (!strcmp(argv[2], "share")) {
        handle shared;
        address later;
        status first = p_cuIpcGetMemHandle(&shared, memory);
        p_cuMemAlloc(&later, 1000);
        printf("share %u, later %u\n", first, p_cuIpcGetMemHandle(&shared, later));
        p_cuMemFree(later);
    }
    if (!strcmp(argv[2], "children")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i)
            pthread_create(&threads[i], NULL, allocate_and_free, NULL);
        int lost = 0;
        for (int i = 0; i < 100; ++i) {
            pid_t child = fork();
            if (!child) {
                alarm(30);
                address one, start;
                size_t size;
                p_cuMemAlloc(&one, 1000);
                p_cuMemGetAddressRange(&start, &size, memory);
                exit(0);
            }
            int end;
            waitpid(child, &end, 0);
            lost += end != 0;
        }
        printf("children lost %d\n", lost);
        stop = 1;
        for (int i = 0; i < 4; ++i)
            pthread_join(threads[i], NULL);
    }
    if (!strncmp(argv[2], "signal", 6))
        chain(argv[2] + 6);
    of_threads = memory;
    of_kernel = kernel;
    if (!strcmp(argv[2], "cancel"))
        cancel_threads();
    if (!strcmp(argv[2], "jump"))
        jump_out();
    if (!strncmp(argv[2], "descriptors", 11))
        use_descriptors(argv[3]);
    if (!strncmp(argv[2], "take", 4))
        take_signals(argv[2] + 4);
    if (!strcmp(argv[2], "limit"))
        limit_memory();
    if (!strncmp(argv[2], "heap", 4))
        leave_from_heap(argv[2] + 4);
    if (!strcmp(argv[2], "errors")) {
        errno = 77;
        launch(900);
        printf("after a launch %d\n", errno);
    }
    if (!strncmp(argv[2], "exec", 4)) {
        fflush(stdout);
        int child = vfork();
        if (!child) {
            execlp("true", "true", NULL);
            _exit(1);
        }
        launch(500);
        if (!strcmp(argv[2], "exec"))
            execlp("echo", "echo", "another", "program", NULL);
        printf("exec %d\n", execl("/no/such/program", "program", NULL));
        launch(600);
    }
    if (!strcmp(argv[2], "daemon")) {
        launch(700);
        fflush(stdout);
        if (daemon(1, 1))
            return 30;
        _exit(0);
    }
    printf("copy %u\n", p_cuMemcpyDtoH(data, memory, 4));
    printf("free %u\n", p_cuMemFree(memory));
    printf("again %d\n", p_cuMemFree(memory + 8) != 0);
    fflush(stdout);
    if (!strcmp(argv[2], "fork") && fork() == 0)
        exit(0);
    wait(NULL);
    if (!strcmp(argv[2], "leave"))
        _exit(3);
    return 4;
}
