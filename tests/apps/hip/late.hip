// Uses the GPU in destructors of thread-local and static objects and in an exit handler.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

__global__ void add(int *to, int what) { atomicAdd(to, what); }

static void use(const char *who, int threads) {
    int *sum, host = -1;
    hipStream_t stream;
    bool ok = !hipStreamCreate(&stream) && !hipMalloc(&sum, sizeof *sum) && !hipMemset(sum, 0, sizeof *sum);
    add<<<1, threads, 0, stream>>>(sum, 1);
    ok = ok && !hipGetLastError() && !hipStreamSynchronize(stream) &&
         !hipMemcpy(&host, sum, sizeof host, hipMemcpyDeviceToHost) && !hipFree(sum) && !hipStreamDestroy(stream);
    printf("%s: %d\n", who, ok ? host : -1);
    fflush(stdout);
}

struct Late {
    const char *who;
    int threads;
    ~Late() { use(who, threads); }
};

static void at_exit() { use("at exit", 67); }

int main() {
    atexit(at_exit);
    static Late of_program{"of the program", 66};
    std::thread([] { thread_local Late late{"of a thread", 64}; }).join();
    thread_local Late late{"of the main thread", 65};
    (void)hipSetDevice(0);
    puts("end");
}
