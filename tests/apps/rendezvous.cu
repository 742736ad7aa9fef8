// Kernels that wait for an action after their launch:
//     rendezvous MODE
// The action by MODE: a host store to "mapped", "pinned" or "managed" memory, a "kernel" or a "copy" on another
// stream, the host's next task for a kernel that works until told to stop ("queue"), each other's host thread
// ("threads"), or the host while the kernel is in a "graph". "ready" does not wait. Another kernel runs at the
// end.
#include "check.cuh"

#include <ctime>
#include <string>
#include <thread>
#include <unistd.h>

__global__ void wait_for(const volatile unsigned *flag, unsigned wanted, unsigned *out) {
    while (*flag != wanted)
        ;
    out[threadIdx.x] = 2 * *flag + threadIdx.x;
}

__global__ void hoist(volatile unsigned *flag, unsigned value) { *flag = value; }

// Answers each new task until told to stop.
__global__ void serve(const volatile unsigned *task, volatile unsigned *answer) {
    for (unsigned done = 0; done != 0xffffffffu;) {
        unsigned now = *task;
        if (now == done)
            continue;
        done = now;
        *answer = now * 3 + 1;
        __threadfence_system();
    }
}

__global__ void steady(unsigned *values) { values[threadIdx.x] = values[threadIdx.x] * 5 + 1; }

constexpr unsigned wanted = 21;

static cudaStream_t new_stream() {
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

// A word of memory, initially 0, that host and device can access.
static volatile unsigned *visible_word(const std::string &kind) {
    unsigned *word = nullptr;
    if (kind == "managed")
        CUDA_OK(cudaMallocManaged(&word, sizeof *word));
    else if (kind == "pinned")
        CUDA_OK(cudaMallocHost(&word, sizeof *word));
    else
        CUDA_OK(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped));
    *word = 0;
    return word;
}

static unsigned *of_device(volatile unsigned *word) {
    void *address = nullptr;
    if (cudaHostGetDevicePointer(&address, const_cast<unsigned *>(word), 0) == cudaSuccess)
        return static_cast<unsigned *>(address);
    (void)cudaGetLastError();
    return const_cast<unsigned *>(word);
}

// Waiting work is unfinished, whatever the recorder did with it.
static bool is_busy(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }

static void take_a_moment() { usleep(1000); }

static bool expected(const DeviceArray<unsigned> &out) {
    bool right = true;
    std::vector<unsigned> values = out.download();
    for (unsigned i = 0; i < values.size(); ++i)
        right = right && values[i] == 2 * wanted + i;
    return right;
}

static bool host_store(const std::string &kind, bool ready) {
    cudaStream_t stream = new_stream();
    DeviceArray<unsigned> out(32);
    volatile unsigned *flag = visible_word(kind);
    if (ready)
        *flag = wanted;
    wait_for<<<1, 32, 0, stream>>>(of_device(flag), wanted, out.get());
    CUDA_OK(cudaGetLastError());
    bool right = ready || is_busy(stream);
    take_a_moment();
    *flag = wanted;
    CUDA_OK(cudaStreamSynchronize(stream));
    return expected(out) && right;
}

static bool other_stream(bool copies) {
    // A GPU loads a kernel at its first launch, which may wait for running kernels.
    cudaFuncAttributes attributes;
    CUDA_OK(cudaFuncGetAttributes(&attributes, hoist));
    cudaStream_t stream = new_stream(), other = new_stream();
    DeviceArray<unsigned> out(32), flag(1);
    flag.clear();
    volatile unsigned *source = visible_word("pinned");
    *source = wanted;
    CUDA_OK(cudaDeviceSynchronize());
    wait_for<<<1, 32, 0, stream>>>(flag.get(), wanted, out.get());
    CUDA_OK(cudaGetLastError());
    bool right = is_busy(stream);
    if (copies)
        CUDA_OK(cudaMemcpyAsync(flag.get(), const_cast<unsigned *>(source), sizeof *source, cudaMemcpyHostToDevice,
                                other));
    else
        hoist<<<1, 1, 0, other>>>(flag.get(), wanted);
    CUDA_OK(cudaStreamSynchronize(stream));
    return expected(out) && right;
}

static bool queue() {
    cudaStream_t stream = new_stream();
    volatile unsigned *task = visible_word("mapped"), *answer = visible_word("mapped");
    serve<<<1, 1, 0, stream>>>(of_device(task), of_device(answer));
    CUDA_OK(cudaGetLastError());
    for (unsigned number : {1u, 2u, 700u, 0xffffffffu}) {
        if (!is_busy(stream))
            return false;
        *task = number;
        while (*answer != number * 3 + 1)
            take_a_moment();
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    return true;
}

// Each thread's kernel waits for the other thread, which proceeds once its own kernel runs.
static bool threads() {
    volatile unsigned *flags[2] = {visible_word("mapped"), visible_word("mapped")};
    bool right[2] = {};
    std::vector<std::thread> both;
    for (int own = 0; own < 2; ++own)
        both.emplace_back([&, own] {
            cudaStream_t stream = new_stream();
            DeviceArray<unsigned> out(32);
            wait_for<<<1, 32, 0, stream>>>(of_device(flags[own]), wanted, out.get());
            CUDA_OK(cudaGetLastError());
            *flags[1 - own] = wanted;
            CUDA_OK(cudaStreamSynchronize(stream));
            right[own] = expected(out);
        });
    for (std::thread &thread : both)
        thread.join();
    return right[0] && right[1];
}

static bool graph() {
    cudaStream_t stream = new_stream();
    DeviceArray<unsigned> out(32), after(32);
    volatile unsigned *flag = visible_word("mapped");
    unsigned *address = of_device(flag);
    cudaGraph_t captured;
    cudaGraphExec_t executable;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    wait_for<<<1, 32, 0, stream>>>(address, wanted, out.get());
    CUDA_OK(cudaMemcpyAsync(after.get(), out.get(), 32 * sizeof(unsigned), cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &captured));
    CUDA_OK(cudaGraphInstantiate(&executable, captured, 0));
    CUDA_OK(cudaGraphLaunch(executable, stream));
    bool right = is_busy(stream);
    take_a_moment();
    *flag = wanted;
    CUDA_OK(cudaStreamSynchronize(stream));
    return expected(after) && right;
}

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "mapped";
    alarm(150);
    bool right = mode == "ready"                      ? host_store("mapped", true)
                 : mode == "kernel" || mode == "copy" ? other_stream(mode == "copy")
                 : mode == "queue"                    ? queue()
                 : mode == "threads"                  ? threads()
                 : mode == "graph"                    ? graph()
                                                      : host_store(mode, false);
    std::vector<unsigned> values(32);
    for (unsigned i = 0; i < values.size(); ++i)
        values[i] = scramble(i);
    DeviceArray<unsigned> device_values(values);
    // On a busy machine it takes a moment to notice that the device is idle again.
    for (int round = 0; round < 4; ++round, usleep(20000))
        steady<<<1, 32>>>(device_values.get());
    LAUNCH_OK();
    for (unsigned &value : values)
        for (int round = 0; round < 4; ++round)
            value = value * 5 + 1;
    right = right && device_values.download() == values;
    std::printf("rendezvous %s: %s\n", mode.c_str(), right ? "ok" : "WRONG");
    return right ? 0 : 1;
}
