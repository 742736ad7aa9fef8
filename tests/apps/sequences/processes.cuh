// Sequences in separate processes that have the same ids or different users, and several ways to end a process or to
// call exec.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// The program's arguments.
struct Settings {
    uint64_t seed = 0, count = 10, devices = 2, destroys_pools_in_use = 1;
    std::string skipped, without, processes = "one";
};

// The status if this machine or user cannot create such processes.
constexpr int NOT_POSSIBLE = 77;
// Seeds of processes that are killed. Their sequences are not compared.
constexpr uint64_t VICTIMS = uint64_t{1} << 40;
constexpr uint64_t PART = 8;
constexpr uid_t OTHER_USER = 65534;

// Executes this program again with some of its sequences.
[[noreturn]] inline void become(const Settings &settings, uint64_t seed, uint64_t count) {
    std::vector<std::string> words = {"sequences",
                                      "--seed",
                                      std::to_string(seed),
                                      "--count",
                                      std::to_string(count),
                                      "--devices",
                                      std::to_string(settings.devices),
                                      "--destroy-pools-in-use",
                                      std::to_string(settings.destroys_pools_in_use)};
    for (const auto &[name, value] : {std::pair{"--skip", settings.skipped}, std::pair{"--without", settings.without}})
        if (!value.empty())
            words.insert(words.end(), {name, value});
    std::vector<char *> arguments;
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
    std::perror("exec");
    _exit(2);
}

// The exit status of a child, as in a shell.
inline int wait_for_child(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 2;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Runs a part in a new process, which writes to a file.
inline pid_t start_part(const Settings &settings, uint64_t seed, uint64_t count, int output) {
    pid_t child = fork();
    if (child != 0)
        return child;
    if (settings.processes == "same-ids" && getpid() != 2)
        _exit(NOT_POSSIBLE);
    dup2(output, STDOUT_FILENO);
    become(settings, seed, count);
}

// The next child of this process has the id 2, unless another process has taken it.
inline bool rewind_ids() {
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, "1", 1) == 1;
    if (file >= 0)
        close(file);
    return done;
}

// Runs every second part, one after another, and returns a status.
inline int run_lane(const Settings &settings, int lane, const std::vector<int> &outputs) {
    bool same_ids = settings.processes == "same-ids";
    for (size_t part = lane; part < outputs.size(); part += 2) {
        uint64_t seed = settings.seed + part * PART, count = std::min(PART, settings.seed + settings.count - seed);
        // A process that is killed during its work leaves unfinished objects behind.
        if (same_ids && part % 3 == 0) {
            int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
            if (nowhere < 0 || !rewind_ids())
                return NOT_POSSIBLE;
            pid_t victim = start_part(settings, VICTIMS + seed, count, nowhere);
            close(nowhere);
            usleep(static_cast<useconds_t>(50000 + part * 7919 % 400000));
            kill(victim, SIGKILL);
            wait_for_child(victim);
        }
        if (same_ids && !rewind_ids())
            return NOT_POSSIBLE;
        int status = wait_for_child(start_part(settings, seed, count, outputs[part]));
        if (status != 0)
            return status;
    }
    return 0;
}

// The same as the first process of a new namespace, with new ids.
inline int run_lane_in_namespace(const Settings &settings, int lane, const std::vector<int> &outputs) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        return NOT_POSSIBLE;
    pid_t first = fork();
    if (first != 0)
        return wait_for_child(first);
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount("proc", "/proc", "proc", 0, nullptr) != 0)
        _exit(NOT_POSSIBLE);
    _exit(run_lane(settings, lane, outputs));
}

// Whether this process may read the objects loaded before its program.
inline bool has_preloaded() {
    const char *names = std::getenv("LD_PRELOAD");
    std::string all = names ? names : "";
    for (size_t at = 0; at < all.size();) {
        size_t end = std::min(all.find_first_of(": ", at), all.size());
        if (end > at && access(all.substr(at, end - at).c_str(), R_OK) != 0)
            return false;
        at = end + 1;
    }
    return true;
}

inline int run_lane_as_user(const Settings &settings, int lane, const std::vector<int> &outputs) {
    if (lane == 1 && (setgroups(0, nullptr) != 0 || setresgid(OTHER_USER, OTHER_USER, OTHER_USER) != 0 ||
                      setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0 || !has_preloaded()))
        return NOT_POSSIBLE;
    return run_lane(settings, lane, outputs);
}

// Runs the sequences in two lanes of processes, and prints their output in order.
inline int run_parts(const Settings &settings) {
    std::vector<int> outputs;
    for (uint64_t at = 0; at < settings.count; at += PART)
        outputs.push_back(memfd_create("part", 0));
    pid_t lanes[2];
    for (int lane = 0; lane < 2; ++lane) {
        lanes[lane] = fork();
        if (lanes[lane] == 0)
            _exit(settings.processes == "users" ? run_lane_as_user(settings, lane, outputs)
                                                : run_lane_in_namespace(settings, lane, outputs));
    }
    int first = wait_for_child(lanes[0]), second = wait_for_child(lanes[1]);
    for (int output : outputs) {
        char buffer[1 << 16];
        lseek(output, 0, SEEK_SET);
        for (ssize_t size; (size = read(output, buffer, sizeof buffer)) > 0;)
            std::fwrite(buffer, 1, static_cast<size_t>(size), stdout);
    }
    std::fflush(stdout);
    return first != 0 ? first : second;
}

// Ends the process in one of several ways, all with status 0.
inline int end_process(size_t way) {
    char name[] = "true";
    char *arguments[] = {name, nullptr};
    std::fflush(stdout);
    switch (way) {
    case 0: _exit(0);
    case 1: std::quick_exit(0);
    case 2: std::exit(0);
    case 3: execvp(name, arguments); _exit(2);
    case 4:
        // The child continues.
        if (daemon(1, 1) != 0)
            _exit(2);
        _exit(0);
    default: return 0;
    }
}
