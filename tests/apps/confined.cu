// A program that restricts or inspects its own process. `names NAME…` prints the functions with these names in the
// program and its libraries. `file PATH` closes standard error and opens a file under its number. `calls` makes the
// system kill the process when it opens a file. `descriptors` forbids opening further files. The last two begin between
// two launches.
#include "check.cuh"

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__global__ void advance(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += 1;
}

static int confine(const char *how) {
    if (std::strcmp(how, "descriptors") == 0) {
        rlimit none = {3, 3};
        return setrlimit(RLIMIT_NOFILE, &none);
    }
    if (std::strcmp(how, "calls") == 0) {
        sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        sock_fprog program = {4, filter};
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (std::strcmp(how, "file") == 0) {
        close(2);
        if (open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600) != 2 || write(2, "data", 4) != 4)
            return 2;
    }
    for (int at = 2; std::strcmp(how, "names") == 0 && at < argc; at++)
        std::printf("%s: %s\n", argv[at], dlsym(RTLD_DEFAULT, argv[at]) ? "found" : "none");
    DeviceArray<int> values(10240);
    values.clear();
    advance<<<40, 256>>>(values.get(), 10240);
    LAUNCH_OK();
    if (confine(how) != 0)
        return 2;
    advance<<<40, 256>>>(values.get(), 10240);
    LAUNCH_OK();
    std::printf("%d\n", values.download()[7]);
    return 0;
}
