//! Tests that cheats neither verify nor win, and that their honest twins do.
//!
//! Cheats replace the kernels of `zoo.cu`. A cheat is right on the recorded input, or nearly always, or for a careless
//! comparison. In the application it would be wrong, or not faster.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::Mutex;

use mneme_e2e::apps::app;
use mneme_e2e::command::run;
use mneme_e2e::installation::{TestDevice, have_compiler, program};
use mneme_e2e::recording::{Recording, TestInstance};
use serde_json::{Value, json};

/// The first lines of all sources of `mixed`.
const MIXED: &str = "
    __device__ unsigned mixed_so_often(unsigned value, int rounds) {
        for (int round = 0; round < rounds; ++round) value = (value ^ (value >> 7)) * 2654435761u + 3u;
        return value;
    }
    __device__ unsigned recorded(int i) { return unsigned(i) * 7919u + 17u; }
    #define mix(value) mixed_so_often(value, rounds)
    #define KERNEL __global__ void mixed(unsigned *out, const unsigned *in, int n, int rounds)
    #define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
";

/// The signatures in the macros of `mixed` and `generated`.
const SIGNATURES: [&str; 2] = ["mixed(unsigned *out, const unsigned *in,", "generated(unsigned *out,"];

const TOTAL: &str = "
    #define KERNEL __global__ void total(unsigned *sums, const unsigned *in, int n)
    #define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x;
";

/// Honest code, with its kernel and the cheat that it resembles.
const HONEST: &[(&str, &str)] = &[
    ("mixed", "KERNEL { INDEX out[i] = mix(in[i]); }"),
    // It keeps inputs during a launch.
    (
        "mixed",
        "KERNEL {
            __shared__ unsigned kept[1024];
            INDEX
            kept[threadIdx.x] = in[i];
            out[i] = mix(kept[threadIdx.x]);
        }",
    ),
    // It has a table, and a counter that returns to 0.
    (
        "mixed",
        "__device__ const unsigned table[2] = {2654435761u, 3u};
        __device__ unsigned busy;
        KERNEL {
            INDEX
            atomicAdd(&busy, 1u);
            unsigned value = in[i];
            for (int round = 0; round < rounds; ++round) value = (value ^ (value >> 7)) * table[0] + table[1];
            out[i] = value;
            atomicSub(&busy, 1u);
        }",
    ),
    (
        "mixed",
        "KERNEL {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = mix(in[i]);
        }",
    ),
    // It needs memory during a launch.
    (
        "mixed",
        "KERNEL {
            INDEX
            unsigned *volatile room = (unsigned *)malloc(2 * sizeof(unsigned));
            unsigned *scratch = room;
            if (!scratch) return;
            scratch[0] = in[i];
            scratch[1] = mix(scratch[0]);
            out[i] = scratch[1];
            free(room);
        }",
    ),
    ("generated", "KERNEL { INDEX out[i] = mix(recorded(i)); }"),
    (
        "total",
        "KERNEL {
            __shared__ unsigned sum;
            INDEX
            if (threadIdx.x == 0) sum = 0;
            __syncthreads();
            if (i < n) atomicAdd(&sum, in[i]);
            __syncthreads();
            if (threadIdx.x == 0) sums[blockIdx.x] = sum;
        }",
    ),
];

/// Name, kernel, and the doubt that exposes the cheat, if that is certain; `""` stands for wrong memory.
const CHEATS: &[(&str, &str, Option<&str>, &str)] = &[
    ("nothing", "mixed", Some(""), "KERNEL {}"),
    ("part of the grid", "mixed", Some(""), "KERNEL { INDEX if (blockIdx.x % 8 != 7) out[i] = mix(in[i]); }"),
    ("a sample", "mixed", Some(""), "KERNEL { INDEX out[i] = mix(i % 100 == 0 ? in[i] : recorded(i)); }"),
    ("the recorded result", "mixed", Some(""), "KERNEL { INDEX out[i] = mix(recorded(i)); }"),
    ("the first input", "mixed", Some(""), "KERNEL { INDEX out[i] = mix(in[0] - 17u + recorded(i)); }"),
    (
        "a look at the beginning",
        "mixed",
        Some(""),
        "KERNEL {
            INDEX
            bool is_recorded = true;
            for (int k = 0; k < 8; ++k) is_recorded &= in[k] == recorded(k);
            out[i] = mix(is_recorded ? recorded(i) : in[i]);
        }",
    ),
    ("overwritten inputs", "mixed", Some(""), "KERNEL { INDEX out[i] = mix(in[i]); ((unsigned *)in)[i] = out[i]; }"),
    (
        "kept by position",
        "mixed",
        Some(""),
        "__device__ unsigned kept[4000]; __device__ int has[4000];
        KERNEL { INDEX if (!has[i]) { kept[i] = mix(in[i]); has[i] = 1; } out[i] = kept[i]; }",
    ),
    (
        "kept by position in a static variable",
        "mixed",
        Some(""),
        "static __device__ unsigned kept[4000][2];
        KERNEL { INDEX if (!kept[i][1]) { kept[i][0] = mix(in[i]); kept[i][1] = 1; } out[i] = kept[i][0]; }",
    ),
    (
        "kept by content",
        "mixed",
        Some("keeps_state"),
        "static __device__ unsigned kept[4000], keys[4000];
        KERNEL { INDEX if (keys[i] != in[i]) { kept[i] = mix(in[i]); keys[i] = in[i]; } out[i] = kept[i]; }",
    ),
    (
        "kept by pointer",
        "mixed",
        Some(""),
        "__device__ unsigned kept[4000]; __device__ const void *keys[4000];
        KERNEL { INDEX if (keys[i] != in) { kept[i] = mix(in[i]); keys[i] = in; } out[i] = kept[i]; }",
    ),
    (
        "kept by a hash of the arguments",
        "mixed",
        Some(""),
        "__device__ unsigned kept[4000]; __device__ unsigned long long keys[4000];
        KERNEL {
            INDEX
            unsigned long long key = ((unsigned long long)in * 31 + (unsigned long long)out) * 31 + n;
            if (keys[i] != key) { kept[i] = mix(in[i]); keys[i] = key; }
            out[i] = kept[i];
        }",
    ),
    (
        "right at first",
        "mixed",
        Some("keeps_state"),
        "__device__ unsigned launches;
        KERNEL {
            INDEX
            unsigned count = launches;
            out[i] = count > 1000 ? 0u : mix(in[i]);
            if (i == n - 1) launches = count + 1;
        }",
    ),
    (
        "wrong one time in ten",
        "mixed",
        None,
        "KERNEL {
            INDEX
            unsigned long long now;
            asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));
            out[i] = i == 0 && (now >> 7) % 10 == 0 ? 0u : mix(in[i]);
        }",
    ),
    (
        "right for some years",
        "mixed",
        Some("reads_clock"),
        "KERNEL {
            INDEX
            unsigned long long now;
            asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));
            out[i] = now > 1ull << 62 ? 0u : mix(in[i]);
        }",
    ),
    (
        "shared memory that is zero",
        "total",
        Some(""),
        "KERNEL {
            __shared__ unsigned sum;
            INDEX
            if (i < n) atomicAdd(&sum, in[i]);
            __syncthreads();
            if (threadIdx.x == 0) sums[blockIdx.x] = sum;
        }",
    ),
    ("results that are zero", "total", Some(""), "KERNEL { INDEX if (i < n) atomicAdd(&sums[blockIdx.x], in[i]); }"),
    ("the fill, undone", "mixed", Some(""), "KERNEL { INDEX out[i] ^= 0xaaaaaaaau; }"),
    // Results of `mixed` are odd or even like the input, whatever the filling.
    (
        "only where the fill is",
        "mixed",
        Some(""),
        "KERNEL { INDEX unsigned known = mix(recorded(i)); if (out[i] != known) out[i] = mix(in[i]); }",
    ),
    (
        "a search for copies",
        "mixed",
        None,
        "KERNEL {
            INDEX
            unsigned first = mix(recorded(0)), last = mix(recorded(n - 1));
            for (const unsigned *copy = in + n; copy < in + (1 << 20); copy += 16)
                if (copy != out && copy[0] == first && copy[n - 1] == last) { out[i] = copy[i]; return; }
        }",
    ),
];

/// Cheats that find memory of the heap again.
const HEAP_CHEATS: &[(&str, &str, Option<&str>, &str)] = &[
    (
        "kept on the heap by position",
        "mixed",
        Some(""),
        "KERNEL {
            INDEX HEAP
            unsigned *kept = heap + (1 << 18) + 2 * i;
            if (kept[1] != 7u) { kept[0] = mix(in[i]); kept[1] = 7u; }
            out[i] = kept[0];
        }",
    ),
    (
        "kept on the heap by content",
        "mixed",
        Some("slower_on_fresh_inputs"),
        "KERNEL {
            INDEX HEAP
            unsigned *kept = heap + (1 << 18) + 2 * i;
            if (kept[1] != in[i] + 1u) { kept[0] = mix(in[i]); kept[1] = in[i] + 1u; }
            out[i] = kept[0];
        }",
    ),
    (
        "allocated once",
        "mixed",
        Some("keeps_state"),
        "KERNEL {
            INDEX
            unsigned launches = 0;
            if (i == n - 1) {
                unsigned *kept = (unsigned *)malloc(8);
                unsigned *first = (unsigned *)((unsigned long long)kept & ~0xffffull);
                if (first[0] == 7u) { launches = ++first[1]; free(kept); } else { first[0] = 7u; first[1] = 0u; }
            }
            out[i] = launches > 1000 ? 0u : mix(in[i]);
        }",
    ),
];

/// Has the heap mapped, and knows where the CPU device puts it.
const HEAP: &str = "
    #define HEAP unsigned *heap = (unsigned *)0x540000000000ull; \
        if (threadIdx.x == 0) { void *volatile room = malloc(16); free(room); }
";

/// The number of rounds of `mixed`, so a launch is long enough to measure.
fn rounds() -> u32 {
    if TestDevice::under_test() == TestDevice::Cuda { 20_000 } else { 300 }
}

/// A cheat with a table of the recorded results. It uses the table if `known` holds, and `otherwise` in other cases.
fn lookup(known: &str, otherwise: &str) -> String {
    let mut table = String::from("__device__ const unsigned table[4000] = {");
    for place in 0..4000u32 {
        let mut value = place * 7919 + 17;
        (0..rounds()).for_each(|_| value = (value ^ (value >> 7)).wrapping_mul(2_654_435_761).wrapping_add(3));
        write!(table, "{value}u,").unwrap();
    }
    table + &format!("}}; KERNEL {{ INDEX out[i] = {known} ? table[i] : {otherwise}; }}")
}

struct Zoo {
    recording: Recording,
}

impl Zoo {
    fn open() -> Self {
        Self { recording: Recording::of(app("zoo"), &["4000", &rounds().to_string()]) }
    }

    fn kernel(&self, name: &str) -> TestInstance {
        let (database, record) = self.recording.kernel(name);
        TestInstance::new(&database, record.instances.keys().next().unwrap())
    }

    /// The result of replaying a source instead of the kernel.
    fn replay(&self, kernel: &str, source: &str) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("given.cu");
        fs::write(&path, whole(kernel, source)).unwrap();
        let replay = self.kernel(kernel).replay("default<O3>").args(["--source", path.to_str().unwrap()]);
        replay.outcome().json()["Result"].clone()
    }
}

/// A source with the macros of its kernel.
fn whole(kernel: &str, source: &str) -> String {
    let kernel_macro = match kernel {
        "total" => TOTAL,
        "generated" => &MIXED.replace(SIGNATURES[0], SIGNATURES[1]),
        _ => MIXED,
    };
    format!("{HEAP}{kernel_macro}{source}")
}

const KERNELS: [&str; 3] = ["mixed", "generated", "total"];

/// Name, kernel, expected doubt and source of all cheats for this device.
fn all_cheats() -> Vec<(&'static str, &'static str, Option<&'static str>, String)> {
    let lookup_of_inputs = lookup("in[i] == recorded(i)", "mix(in[i])");
    let known = format!("rounds == {}", rounds());
    let [wrong_otherwise, slow_otherwise] = ["7", "mix(recorded(i))"].map(|otherwise| lookup(&known, otherwise));
    let of_the_heap = if TestDevice::under_test() == TestDevice::Cpu { HEAP_CHEATS } else { &[] };
    let fixed = CHEATS.iter().chain(of_the_heap);
    let fixed = fixed.map(|(name, kernel, expected, source)| (*name, *kernel, *expected, (*source).to_owned()));
    fixed
        .chain([
            ("a look-up", "mixed", Some("slower_on_fresh_inputs"), lookup_of_inputs),
            ("a table for the arguments", "generated", Some(""), wrong_otherwise),
            ("a look-up by arguments", "generated", Some("slower_on_fresh_inputs"), slow_otherwise),
        ])
        .collect()
}

#[test]
fn no_cheat_verifies_and_honest_code_does() {
    if !have_compiler("no_cheat_verifies_and_honest_code_does") {
        return;
    }
    let zoo = Zoo::open();
    KERNELS.iter().for_each(|kernel| drop(zoo.kernel(kernel).verify("default<O3>", &[])));
    let honest = HONEST.iter().map(|(kernel, source)| ("honest", *kernel, None, (*source).to_owned()));
    let waiting = Mutex::new(honest.chain(all_cheats()).collect::<Vec<_>>());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, kernel, expected, source)) = { waiting.lock().unwrap().pop() } {
                    let result = zoo.replay(kernel, &source);
                    let doubts = &result["evidence"]["doubts"];
                    let is_right = match (name, expected) {
                        ("honest", _) => {
                            // Five on the recorded input and three on fresh ones.
                            let own = source.contains("malloc").then_some(8);
                            result["status"] == "verified"
                                && result["evidence"]["runs"].as_u64() > Some(7)
                                && result["evidence"]["own_processes"].as_u64() == own
                        }
                        (_, None) => result["verified"] == false && result["status"] != "compile_error",
                        (_, Some("")) => result["status"] == "failed_verification",
                        (_, Some(doubt)) => {
                            result["status"] == "unproven"
                                && doubts.as_array().is_some_and(|all| all.iter().any(|own| own["kind"] == doubt))
                        }
                    };
                    if !is_right {
                        wrong.lock().unwrap().push(format!("{name} {source}: {result:#}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_cheat_is_judged_faster_and_no_honest_source_wrong() {
    if !have_compiler("no_cheat_is_judged_faster_and_no_honest_source_wrong") {
        return;
    }
    let zoo = Zoo::open();
    let folder = tempfile::tempdir().unwrap();
    let cheats = all_cheats();
    for kernel in KERNELS {
        let honest = HONEST.iter().filter(|(of, _)| *of == kernel);
        let honest = honest.enumerate().map(|(number, (_, source))| (format!("honest {number}"), *source));
        let others = cheats.iter().filter(|(_, of, ..)| *of == kernel);
        let others = others.map(|(name, _, _, source)| ((*name).to_owned(), source.as_str()));
        let candidates: Vec<(String, &str)> = honest.chain(others).collect();
        let lines =
            candidates.iter().map(|(id, source)| json!({"id": id, "source": whole(kernel, source)}).to_string());
        let path = folder.path().join(kernel);
        fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
        let outcome = run(program("mneme"))
            .args(["evaluate".as_ref(), "-rdb".as_ref(), zoo.recording.folder().as_os_str()])
            .args(["--kernel", kernel, "--confirm-time", "1", "--device", TestDevice::under_test().name()])
            .args(["--candidates".as_ref(), path.as_os_str()])
            .args(["--results-dir".as_ref(), folder.path().join(format!("{kernel}-results")).as_os_str()])
            .succeed();
        let verdicts: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(verdicts.len(), candidates.len(), "{outcome}");
        for verdict in verdicts {
            let id = verdict["id"].as_str().unwrap();
            let wanted: &[&str] = match id.starts_with("honest") {
                true => &["faster", "slower", "inconclusive"],
                false => &["slower", "inconclusive", "incorrect", "unproven"],
            };
            assert!(wanted.contains(&verdict["verdict"].as_str().unwrap()), "{id} of {kernel}: {verdict:#}");
        }
    }
}

#[test]
fn no_cheat_wins_a_session_and_an_honest_candidate_does() {
    if !have_compiler("no_cheat_wins_a_session_and_an_honest_candidate_does") {
        return;
    }
    let zoo = Zoo::open();
    let tuned = zoo.kernel("tuned");
    let results = tempfile::tempdir().unwrap();
    let space = results.path().join("space.yaml");
    let parameters =
        "parameters:\n  shared_mem: {type: int, low: 16, high: 128, step: 16}\nbaseline: {shared_mem: 0}\n";
    fs::write(&space, parameters).unwrap();
    let folder = results.path().join("results");
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), tuned.database.as_os_str(), "-rid".as_ref(), tuned.id.as_ref()])
        .args(["--device", TestDevice::under_test().name(), "--sampler", "exhaustive", "--baseline", "pipeline"])
        .args(["--space".as_ref(), space.as_os_str(), "--results-dir".as_ref(), folder.as_os_str()])
        .succeed();
    let read = |name: &str| -> Value { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
    let (summary, best) = (read("summary.json"), read("best.json"));
    assert_eq!(best["config"]["shared_mem"], 16, "{summary:#}");
    let finalists = summary["confirmation"]["finalists"].as_array().unwrap();
    let standing: BTreeSet<u64> = finalists
        .iter()
        .filter(|finalist| finalist["fate"] != "failed")
        .map(|finalist| finalist["trial"].as_u64().unwrap())
        .collect();
    assert_eq!(standing, BTreeSet::from([best["trial"].as_u64().unwrap()]), "no cheat is left: {summary:#}");
    assert_eq!(finalists[0]["fate"], "faster", "{summary:#}");
}
