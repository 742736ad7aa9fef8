//! Tests that run kernels in C as grids.

use super::*;
use crate::loader::Loaded;
use crate::status::Status;
use crate::testing::{self, kernel};

fn launch(loaded: &Loaded, name: &str, grid: u32, block: u32, shared: u32, arguments: &[u64]) -> Result<(), Status> {
    limited(loaded, name, grid, block, shared, arguments, None)
}

fn limited(
    loaded: &Loaded,
    name: &str,
    grid: u32,
    block: u32,
    shared: u32,
    arguments: &[u64],
    time_limit: Option<u64>,
) -> Result<(), Status> {
    run_shape(loaded, name, [grid, 1, 1], None, block, shared, arguments, time_limit)
}

#[allow(clippy::too_many_arguments, reason = "the parameters of a launch")]
fn run_shape(
    loaded: &Loaded,
    name: &str,
    grid: [u32; 3],
    cluster: Option<[u32; 3]>,
    block: u32,
    shared: u32,
    arguments: &[u64],
    time_limit: Option<u64>,
) -> Result<(), Status> {
    let row = loaded.table.kernels.iter().find(|row| row.name == name).unwrap();
    // SAFETY: the entry of a test's kernel.
    let entry: grid::KernelEntry = unsafe { std::mem::transmute(loaded.symbol(&row.entry).unwrap() as usize) };
    let parameters: Vec<u8> = arguments.iter().flat_map(|argument| argument.to_le_bytes()).collect();
    run(CheckedLaunch {
        name: name.to_owned(),
        entry,
        owner: None,
        collective: row.collective,
        cooperative: name.starts_with("cooperative"),
        parameters: grid::Parameters::new(&parameters),
        images: images::live(),
        heap: std::sync::Arc::default(),
        grid,
        block: [block, 1, 1],
        cluster,
        warp_size: row.warp_size,
        dynamic_shared_offset: row.dynamic_shared_offset,
        dynamic_shared: shared,
        code: loaded.addresses(),
        time_limit,
    })
}

/// Runs a launch to its end.
fn run(launch: CheckedLaunch) -> Result<(), Status> {
    begin(launch)?.finish()
}

fn one(source: &str, collective: bool) -> Loaded {
    testing::load(source, vec![kernel("k", 1, collective)], vec![])
}

/// Runs kernel `k` of the source with an array of `count` numbers, and returns the array.
fn numbers(source: &str, collective: bool, grid: u32, block: u32, count: usize) -> (Result<(), Status>, Vec<u32>) {
    let mut array = vec![0u32; count];
    let done = launch(&one(source, collective), "k", grid, block, 4096, &[array.as_mut_ptr() as u64]);
    (done, array)
}

#[test]
fn every_thread_runs_once_with_its_own_place() {
    let source = r#"void k(u32 **p) { const struct context *c = __mneme_cpu_thread();
        (*p)[c->ctaid[0] * c->ntid[0] + c->tid[0]] += 1 + c->tid[0] + 1000 * c->lane + 100000 * c->warp; }"#;
    for collective in [false, true] {
        let (done, array) = numbers(source, collective, 50, 70, 3500);
        assert_eq!(done, Ok(()));
        let expected = |index: u32| 1 + index % 70 + 1000 * (index % 70 % 32) + 100_000 * (index % 70 / 32);
        assert!(array.iter().enumerate().all(|(index, value)| *value == expected(index as u32)));
    }
}

#[test]
fn a_barrier_orders_shared_memory_and_counts_the_exited() {
    // Half of the threads exit; the others pass values round a ring in shared memory.
    let source = r#"void k(u32 **p) { const struct context *c = __mneme_cpu_thread(); u32 t = c->tid[0], *s = (u32 *)c->shared;
        if (t >= 64) return;
        for (u32 round = 0; round < 10; ++round) { s[t] = t + round; __mneme_cpu_barrier(0, 0); u32 v = s[(t + 1) % 64]; __mneme_cpu_barrier(0, 0);
            (*p)[c->ctaid[0] * 64 + t] += v; } }"#;
    let (done, array) = numbers(source, true, 9, 128, 9 * 64);
    assert_eq!(done, Ok(()));
    assert!(array.iter().enumerate().all(|(index, value)| *value == 10 * ((index as u32 % 64 + 1) % 64) + 45));
}

#[test]
fn named_barriers_and_reductions() {
    let source = r#"void k(u32 **p) { u32 t = __mneme_cpu_thread()->tid[0];
        __mneme_cpu_barrier(1 + t / 32, 32);
        (*p)[t] = __mneme_cpu_barrier_vote(0, 0, 0, t % 3 == 0) + 100 * __mneme_cpu_barrier_vote(0, 0, 1, t < 96) + 200 * __mneme_cpu_barrier_vote(0, 0, 2, t == 5); }"#;
    let (done, array) = numbers(source, true, 1, 96, 96);
    assert_eq!(done, Ok(()));
    assert!(array.iter().all(|value| *value == 332));
}

/// Producers arrive and continue. Consumers wait for them, and vote among themselves at another barrier.
#[test]
fn threads_may_arrive_at_a_barrier_without_waiting() {
    let source = r#"static u32 s[96]; void k(u32 **p) { u32 t = __mneme_cpu_thread()->tid[0];
        if (t >= 64) { s[t] = t; __mneme_cpu_barrier_arrive(3, 96); (*p)[t] = 7; return; }
        __mneme_cpu_barrier(3, 96);
        (*p)[t] = s[64 + t % 32] + 100 * __mneme_cpu_barrier_vote(5, 64, 0, t < 10); }"#;
    let (done, array) = numbers(source, true, 1, 96, 96);
    assert_eq!(done, Ok(()));
    assert!((0..64).all(|thread| array[thread] == 64 + thread as u32 % 32 + 1000), "{array:?}");
    assert!(array[64..].iter().all(|value| *value == 7));
}

#[test]
fn diverged_lanes_synchronise_by_mask() {
    let source = r#"void k(u32 **p) { u32 t = __mneme_cpu_thread()->tid[0], v;
        if (t % 2) v = __mneme_cpu_shuffle(3, 0xaaaaaaaa, t, 2, 31); else v = 100 + __mneme_cpu_vote(0, 0x55555555, t % 4 == 0);
        __mneme_cpu_warp_sync(~0u); (*p)[t] = v; }"#;
    let (done, array) = numbers(source, true, 1, 32, 32);
    assert_eq!(done, Ok(()));
    assert!((0..32u32).all(|t| array[t as usize] == if t % 2 == 1 { t ^ 2 } else { 100 + 0x1111_1111 }));
}

#[test]
fn the_active_lanes_are_those_at_the_same_call() {
    let source = r#"void k(u32 **p) { u32 t = __mneme_cpu_thread()->tid[0];
        if (t < 10) (*p)[t] = __mneme_cpu_activemask(); else { __mneme_cpu_warp_sync(0xfffffc00); (*p)[t] = ~__mneme_cpu_activemask(); } }"#;
    let (done, array) = numbers(source, true, 1, 32, 32);
    assert_eq!(done, Ok(()));
    assert!(array.iter().all(|mask| *mask == 0x3ff));
}

#[test]
fn threads_that_wait_for_ever_end_the_launch() {
    let source = "void k(u32 **p) { u32 t = __mneme_cpu_thread()->tid[0]; if (t < 32) __mneme_cpu_barrier(0, 64); else __mneme_cpu_barrier(1, 64); }";
    assert_eq!(numbers(source, true, 4, 64, 1).0, Err(Status::LAUNCH_FAILED));
}

#[test]
fn faults_end_the_launch_and_not_the_process() {
    let overflow = "static int deep(volatile int n) { volatile char frame[4096]; frame[n & 4095] = n; return deep(n + 1) + frame[7]; } void k(u32 **p) { **p = deep(1); }";
    let cases = [
        ("void k(u32 **p) { *(volatile int *)16 = 1; }", Status::ILLEGAL_ADDRESS),
        ("void k(u32 **p) { if (__mneme_cpu_thread()->tid[0] == 3) __mneme_cpu_trap(); }", Status::LAUNCH_FAILED),
        ("void k(u32 **p) { __builtin_trap(); }", Status::LAUNCH_FAILED),
        #[cfg(target_arch = "x86_64")]
        ("void k(u32 **p) { volatile int zero = 0; **p = 7 / zero; }", Status::LAUNCH_FAILED),
        (
            "void __mneme_cpu_texture(u64, u32, u32 *); void k(u32 **p) { u32 at[4] = {0}; __mneme_cpu_texture(16, 0, at); }",
            Status::LAUNCH_FAILED,
        ),
        (overflow, Status::ILLEGAL_ADDRESS),
    ];
    for (source, expected) in cases {
        for collective in [false, true] {
            assert_eq!(numbers(source, collective, 100, 64, 1).0, Err(expected), "{source}");
        }
    }
    // The workers can still be used.
    let (done, array) = numbers("void k(u32 **p) { __sync_fetch_and_add(*p, 1); }", true, 100, 64, 1);
    assert_eq!((done, array), (Ok(()), vec![6400]));
}

#[test]
fn the_largest_blocks_run_with_all_their_stacks() {
    let source = r#"void k(u32 **p) { const struct context *c = __mneme_cpu_thread(); u32 t = c->tid[0], *s = (u32 *)c->shared;
        volatile char local[100000]; local[t] = 1;
        s[t] = t; for (u32 half = 512; half; half /= 2) { __mneme_cpu_barrier(0, 0); if (t < half) s[t] += s[t + half]; }
        if (t == 0) (*p)[c->ctaid[0]] = s[0] + local[0]; }"#;
    let (done, array) = numbers(source, true, 12, 1024, 12);
    assert_eq!((done, array), (Ok(()), vec![1023 * 512 + 1; 12]));
}

/// A turn in a loop that waits, as the compiler lowers it.
const WAIT: &str = "void __mneme_cpu_yield(void);\n#define UNTIL(condition) for (u32 left = 64; !(condition);) if (--left == 0) { __mneme_cpu_yield(); left = 64; }\n";

#[test]
fn threads_wait_for_later_threads_and_blocks() {
    // Each thread waits for the next one, the last one of a block for the first one of the next block.
    let source = format!(
        "{WAIT} void k(volatile u32 **p) {{ const struct context *c = __mneme_cpu_thread(); u32 i = c->ctaid[0] * c->ntid[0] + c->tid[0], n = c->nctaid[0] * c->ntid[0];
        volatile u32 *a = *p; u32 *s = (u32 *)c->shared; s[c->tid[0]] = i; if (i + 1 < n) UNTIL(a[i + 1] != 0) a[i] = n - i + (s[c->tid[0]] != i); }}"
    );
    for collective in [false, true] {
        let (done, array) = numbers(&source, collective, 40, 33, 40 * 33);
        assert_eq!(done, Ok(()));
        assert!(array.iter().enumerate().all(|(index, value)| *value == 40 * 33 - index as u32), "{collective}");
    }
}

#[test]
fn all_blocks_of_a_barrier_through_memory_run() {
    let source = format!(
        "{WAIT} void k(volatile u32 **p) {{ const struct context *c = __mneme_cpu_thread(); volatile u32 *a = *p; u32 sum = 0;
        for (u32 round = 1; round <= 3; ++round) {{
            __mneme_cpu_barrier(0, 0);
            if (c->tid[0] == 0) {{ __sync_fetch_and_add((u32 *)a, 1); UNTIL(*a >= round * c->nctaid[0]) }}
            __mneme_cpu_barrier(0, 0);
            sum += *a >= round * c->nctaid[0];
        }}
        if (sum != 3) a[1] = 1; }}"
    );
    let (done, array) = numbers(&source, true, 60, 96, 2);
    assert_eq!((done, array), (Ok(()), vec![180, 0]));
}

#[test]
fn lanes_at_a_site_are_in_step_and_others_are_not_waited_for() {
    // A warp reduces through shared memory, and a second warp waits for its result.
    let source = format!(
        "{WAIT} void __mneme_cpu_converge(u32); void k(u32 **p) {{ u32 t = __mneme_cpu_thread()->tid[0]; volatile u32 *s = (u32 *)__mneme_cpu_thread()->shared, *a = *p;
        s[t] = t < 64 ? t + 1 : 0; __mneme_cpu_barrier(0, 0);
        if (t < 32) for (u32 d = 32; d; d /= 2) {{ if (t < d) {{ u32 v = s[t] + s[t + d]; __mneme_cpu_converge(1); s[t] = v; __mneme_cpu_converge(2); }} }}
        if (t == 0) a[0] = s[0];
        if (t == 64) {{ UNTIL(a[0] != 0) a[1] = a[0]; }} }}"
    );
    let (done, array) = numbers(&source, true, 1, 96, 2);
    assert_eq!((done, array), (Ok(()), vec![64 * 65 / 2; 2]));
}

#[test]
fn a_launch_over_its_time_is_stopped_wherever_its_threads_are() {
    let waits = format!("{WAIT} void k(volatile u32 **p) {{ UNTIL(**p != 0) }}");
    let runs = "void k(volatile u32 **p) { for (;;) **p = 0; }".to_owned();
    // The others wait at a barrier that comes too late.
    let one_waits = format!(
        "{WAIT} void k(volatile u32 **p) {{ if (__mneme_cpu_thread()->tid[0] == 3) UNTIL(**p != 0) __mneme_cpu_barrier(0, 0); }}"
    );
    for (source, collective) in [(&waits, false), (&waits, true), (&runs, false), (&runs, true), (&one_waits, true)] {
        let loaded = one(source, collective);
        let mut word = 0u32;
        let before = std::time::Instant::now();
        let done = limited(&loaded, "k", 100, 64, 0, &[(&raw mut word) as u64], Some(1));
        assert_eq!(done, Err(Status::LAUNCH_TIMEOUT), "{source}");
        assert!(before.elapsed() < std::time::Duration::from_secs(20), "{source}");
    }
    // The workers can still be used.
    let (done, array) = numbers("void k(u32 **p) { __sync_fetch_and_add(*p, 1); }", true, 100, 64, 1);
    assert_eq!((done, array), (Ok(()), vec![6400]));
}

/// Runs kernel `k` of the source in one block of waves of 64 lanes.
fn waves(source: &str, collective: bool, block: u32, count: usize) -> (Result<(), Status>, Vec<u64>) {
    let row = mneme_image::cpu_object::CpuKernel { warp_size: 64, ..kernel("k", 1, collective) };
    let mut array = vec![0u64; count];
    let loaded = testing::load(source, vec![row], vec![]);
    let done = launch(&loaded, "k", 1, block, 4096, &[array.as_mut_ptr() as u64]);
    (done, array)
}

#[test]
fn waves_have_64_lanes() {
    let source = r#"void k(u64 **p) { const struct context *c = __mneme_cpu_thread();
        (*p)[c->tid[0]] = c->lane + 1000 * c->warp; }"#;
    for collective in [false, true] {
        let (done, array) = waves(source, collective, 150, 150);
        assert_eq!(done, Ok(()));
        assert!(array.iter().enumerate().all(|(t, value)| *value == t as u64 % 64 + 1000 * (t as u64 / 64)));
    }
}

#[test]
fn lanes_of_a_wave_at_the_same_call_exchange() {
    // The second wave has 36 lanes. Half of each wave's lanes take the branch, and all come together after it.
    let source = r#"void k(u64 **p) { u32 t = __mneme_cpu_thread()->tid[0], lane = __mneme_cpu_thread()->lane; u64 v;
        if (lane % 2) { __mneme_cpu_wave_site(1); v = __mneme_cpu_wave_exchange(t, lane ^ 1); }
        else { __mneme_cpu_wave_site(2); v = __mneme_cpu_wave_exchange(t, lane ^ 2); }
        __mneme_cpu_wave_site(3); u64 all = __mneme_cpu_wave_ballot(1);
        __mneme_cpu_wave_site(4); u64 sent = __mneme_cpu_wave_permute(t, 63 - lane);
        (*p)[3 * t] = v; (*p)[3 * t + 1] = all; (*p)[3 * t + 2] = sent; }"#;
    let (done, array) = waves(source, true, 100, 300);
    assert_eq!(done, Ok(()));
    let there = |value: u64| value | 1 << 32;
    for t in 0..100u64 {
        let (lane, of_wave) = (t % 64, if t < 64 { 64 } else { 36 });
        // Odd lanes name even ones, which are at the other call.
        let read = if lane % 2 == 0 && lane ^ 2 < of_wave { there(t ^ 2) } else { 0 };
        let sent = if 63 - lane < of_wave { there(t - lane + 63 - lane) } else { 0 };
        let all = if t < 64 { u64::MAX } else { (1 << 36) - 1 };
        assert_eq!(array[3 * t as usize..][..3], [read, all, sent], "{t}");
    }
}

#[test]
fn a_wave_is_together_again_after_a_loop_that_only_looks_like_waiting() {
    // Lanes leave the loop one after another, and those that remain yield again and again.
    let source = format!(
        "{WAIT} void k(u64 **p) {{ u32 t = __mneme_cpu_thread()->tid[0]; volatile u32 n = 0; UNTIL(++n >= 10 * t + 1)
        (*p)[t] = __mneme_cpu_wave_ballot(t % 2); }}"
    );
    let (done, array) = waves(&source, true, 64, 64);
    assert_eq!(done, Ok(()));
    assert!(array.iter().all(|mask| *mask == 0xaaaa_aaaa_aaaa_aaaa), "{array:x?}");
    // A lane for which others of its wave wait continues in the end.
    let source = format!(
        "{WAIT} void k(volatile u64 **p) {{ u32 t = __mneme_cpu_thread()->tid[0];
        if (t == 5) {{ u64 here = __mneme_cpu_wave_ballot(1); (*p)[0] = here; }} else UNTIL((*p)[0] != 0) }}"
    );
    assert_eq!(waves(&source, true, 64, 1), (Ok(()), vec![1 << 5]));
}

#[test]
fn kernels_can_ask_about_their_launch() {
    let source = r#"void k(u64 **p) { const u8 *a = __mneme_cpu_implicit_arguments(), *d = __mneme_cpu_dispatch_packet();
        const struct context *c = __mneme_cpu_thread(); if (c->tid[0] || c->ctaid[0]) return;
        u64 *o = *p; o[0] = *(u32 *)a; o[1] = *(u32 *)(a + 8); o[2] = *(unsigned short *)(a + 12); o[3] = *(unsigned short *)(a + 64);
        o[4] = *(u32 *)(a + 120); o[5] = *(unsigned short *)(d + 4); o[6] = *(u32 *)(d + 12); o[7] = **(u64 ***)(d + 40) == (u64 *)o; }"#;
    for collective in [false, true] {
        let mut array = [0u64; 8];
        let done = launch(&one(source, collective), "k", 7, 96, 512, &[array.as_mut_ptr() as u64]);
        assert_eq!((done, array), (Ok(()), [7, 1, 96, 3, 512, 96, 7 * 96, 1]));
    }
}

/// As `grid.sync()` of cooperative groups does.
#[test]
fn blocks_of_a_cooperative_launch_wait_for_each_other() {
    let source = r#"void cooperative(u32 **p) { const struct context *c = __mneme_cpu_thread();
        u32 *w = (u32 *)__mneme_cpu_grid_workspace(), *o = *p, b = c->ctaid[0], n = c->nctaid[0];
        for (int round = 0; round < 3; round++) {
            if (!c->tid[0]) o[b] = o[b] * 2 + 1;
            __mneme_cpu_barrier(0, 0);
            if (!c->tid[0]) {
                u32 old = __atomic_fetch_add(w + 1, b ? 1 : 0x80000000 - (n - 1), __ATOMIC_RELEASE);
                while (!((old ^ __atomic_load_n(w + 1, __ATOMIC_ACQUIRE)) & 0x80000000)) __mneme_cpu_yield();
            }
            __mneme_cpu_barrier(0, 0);
            if (!c->tid[0]) o[n + b] += o[(b + 1) % n];
            __mneme_cpu_barrier(0, 0);
            if (!c->tid[0]) {
                u32 old = __atomic_fetch_add(w + 1, b ? 1 : 0x80000000 - (n - 1), __ATOMIC_RELEASE);
                while (!((old ^ __atomic_load_n(w + 1, __ATOMIC_ACQUIRE)) & 0x80000000)) __mneme_cpu_yield();
            }
            __mneme_cpu_barrier(0, 0);
        } if (!b && !c->tid[0]) o[2 * n] = w[0]; }"#;
    let loaded = testing::load(source, vec![kernel("cooperative", 1, true)], vec![]);
    let mut array = vec![0u32; 129];
    assert_eq!(launch(&loaded, "cooperative", 64, 64, 0, &[array.as_mut_ptr() as u64]), Ok(()));
    assert!(array[64..128].iter().all(|sum| *sum == 1 + 3 + 7) && array[128] == 8, "{array:?}");
    // As many blocks as can be in flight, not a multiple of what a worker takes together.
    let width = processors::count();
    let most = (stack::IN_USE / 100 / width * width) as u32;
    let mut array = vec![0u32; 2 * most as usize + 1];
    let done = limited(&loaded, "cooperative", most, 100, 0, &[array.as_mut_ptr() as u64], Some(60));
    assert_eq!((done, array[2 * most as usize]), (Ok(()), 8));
    // Other launches have no workspace.
    let source = "void k(u64 **p) { **p = __mneme_cpu_grid_workspace(); }";
    let mut word = [7u64];
    assert_eq!(launch(&one(source, false), "k", 1, 1, 0, &[word.as_mut_ptr() as u64]), Ok(()));
    assert_eq!(word, [0]);
}

/// Each block reads the shared memory of the cluster's other blocks, round by round.
#[test]
fn blocks_of_a_cluster_share_memory_and_a_barrier() {
    let source = r#"void k(u32 **p) { const struct context *c = __mneme_cpu_thread(); const u32 *e = c->cluster;
        u32 x = c->ctaid[0] % e[0], y = c->ctaid[1] % e[1], rank = x + e[0] * y, count = e[0] * e[1], sum = 0;
        u32 block = c->ctaid[0] + c->nctaid[0] * c->ctaid[1], stride = (c->total_bytes + 127) & -128u;
        u32 *own = (u32 *)c->shared;
        if (c->tid[0] == 40) return;
        for (u32 round = 0; round < 3; ++round) {
            if (!c->tid[0]) *own = 100 * block + round;
            __mneme_cpu_cluster_arrive();
            __mneme_cpu_cluster_wait();
            for (u32 r = 0; r < count; ++r) sum += *(u32 *)((u8 *)own + (long)((int)r - (int)rank) * stride);
            __mneme_cpu_cluster_arrive();
            __mneme_cpu_cluster_wait();
        }
        if (c->explicit_cluster) (*p)[block * c->ntid[0] + c->tid[0]] = sum; }"#;
    let loaded = one(source, true);
    for cluster in [[1, 1, 1], [2, 1, 1], [2, 3, 1], [4, 2, 1]] {
        let grid = [24, 6, 1];
        let mut array = vec![0u32; 24 * 6 * 64];
        let done = run_shape(&loaded, "k", grid, Some(cluster), 64, 300, &[array.as_mut_ptr() as u64], Some(60));
        assert_eq!(done, Ok(()));
        let [width, height, _] = cluster;
        for (index, sum) in array.into_iter().enumerate().filter(|(index, _)| index % 64 != 40) {
            let (x, y) = (index as u32 / 64 % 24, index as u32 / 64 / 24);
            let (first_x, first_y) = (x / width * width, y / height * height);
            let blocks = (0..width * height).map(|rank| first_x + rank % width + 24 * (first_y + rank / width));
            let expected: u32 = blocks.map(|block| 3 * 100 * block + 3).sum();
            assert_eq!(sum, expected, "{cluster:?} {index}");
        }
    }
}

#[test]
fn messages_of_hip_are_whole_before_they_are_printed() {
    let source = r#"void k(u32 **p) { u64 m = __mneme_cpu_ockl_printf_begin(0), other = __mneme_cpu_ockl_fprintf_stderr_begin();
        m = __mneme_cpu_ockl_printf_append_string_n(m, "%d %s\n", 7, 0);
        other = __mneme_cpu_ockl_printf_append_string_n(other, "", 1, 1);
        m = __mneme_cpu_ockl_printf_append_args(m, 1, 42, 0, 0, 0, 0, 0, 0, 0);
        **p = __mneme_cpu_ockl_printf_append_string_n(m, "word", 5, 1) + 100 * other
            + 1000 * (__mneme_cpu_ockl_printf_append_args(12345678, 0, 0, 0, 0, 0, 0, 0, 0, 1) == ~0ul); }"#;
    assert_eq!(numbers(source, false, 1, 1, 1), (Ok(()), vec![1008]));
}
