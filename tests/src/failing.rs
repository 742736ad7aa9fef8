//! A generator of kernels that fail under a pipeline for a known cause.
//!
//! Equal seeds give equal kernels.

use crate::planting::Random;

/// The part at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The planted IR pass.
    Pass,
    /// The planted pass of code generation.
    BackEnd,
    /// The kernel, because of undefined behaviour.
    Kernel,
}

/// A kernel that fails.
#[derive(Debug)]
pub struct Failure {
    pub name: String,
    pub pipeline: String,
    pub blame: Blame,
    /// Whether it fails only in some runs.
    pub is_rare: bool,
}

/// A program whose kernels each fail under some pipeline.
#[derive(Debug)]
pub struct FailingProgram {
    pub text: String,
    pub failures: Vec<Failure>,
}

/// Bodies that every fault damages: their last store is a sum of integers.
const SUMS: [&str; 3] = [
    "$TYPE value = in[i];\n    for (int k = 0; k < $LENGTH; ++k)\n        value = value * 3 + in[(i + k) % n];\n    \
     out[i] = value + $NUMBER;",
    "__shared__ $TYPE values[64];\n    values[threadIdx.x] = in[i] * $LENGTH;\n    __syncthreads();\n    \
     out[i] = values[63 - threadIdx.x] - $NUMBER;",
    "$TYPE sum = 0;\n    for (int k = threadIdx.x; k < n; k += $LENGTH)\n        sum ^= in[k];\n    out[i] = sum + in[i];",
];

/// Right on either path, and sometimes wrong without the last store.
const COINS: [&str; 2] = [
    "$TYPE value = in[i] * 2;\n    out[i] = value;\n    if ((clock64() >> 7 & 15) < $RATE) {\n        __threadfence();\n        \
     out[i] = 0;\n        __threadfence();\n        out[i] = value;\n        __threadfence();\n    }",
    "$TYPE value = in[i] + $NUMBER;\n    out[i] = value;\n    __threadfence();\n    if ((clock64() >> 6 & 15) < $RATE)\n        \
     out[i] = value / 2;\n    __threadfence();\n    if (out[i] != value) {\n        __threadfence();\n        \
     out[i] = value;\n        __threadfence();\n    }",
];

/// Functions before the kernel, and a kernel body with undefined behaviour. `in` ascends from a number near the largest
/// one.
const UNDEFINED: [(&str, &str); 6] = [
    ("", "int more = (in[i] / 2 + i) * ($LENGTH * 3);\n    out[i] = more / 3;"),
    ("", "int more = 7 * $LENGTH * (in[i] - i);\n    for (int k = 0; k < 3; ++k)\n        out[i] = more / 7;"),
    (
        "__device__ __noinline__ int both_$KERNEL(int *a, float *b, int v) {\n    *a = v;\n    *b = $LENGTH;\n    return *a;\n}\n",
        "out[i + n] = both_$KERNEL(reinterpret_cast<int *>(out + i), reinterpret_cast<float *>(out + i), 7);",
    ),
    (
        "__device__ __noinline__ int both_$KERNEL(int *__restrict__ a, int *__restrict__ b, int v) {\n    *a = v;\n    \
         *b = v + $LENGTH;\n    return *a;\n}\n",
        "out[i + n] = both_$KERNEL(reinterpret_cast<int *>(out + i), reinterpret_cast<int *>(out + i), 7);",
    ),
    (
        "__device__ __noinline__ long long both_$KERNEL(long long *a, double *b, int at) {\n    a[at] = at;\n    \
         b[at] = $LENGTH;\n    return a[at];\n}\n",
        "out[i + n] = both_$KERNEL(reinterpret_cast<long long *>(out) , reinterpret_cast<double *>(out), i / 2);",
    ),
    ("", "int value;\n    if (in[i] % 2 == 0)\n        value = in[i];\n    out[i] = value * $LENGTH;"),
];

const USUAL: &str = "sroa,early-cse<memssa>,simplifycfg,instcombine,loop-mssa(licm),gvn,dse,reassociate,sccp,adce,\
                     jump-threading,correlated-propagation,loop-simplify,lcssa,tailcallelim,memcpyopt,bdce,div-rem-pairs,sink";

/// A pipeline that contains a pass at a random position.
fn around(random: &mut Random, planted: &str) -> String {
    if random.below(2) == 0 {
        let [first, last] = [0; 2].map(|_| random.one_of(&["default<O1>", "default<O2>", "default<O3>"]));
        return format!("{first},function({planted}),{last}");
    }
    let usual: Vec<&str> = USUAL.split(',').collect();
    let mut passes: Vec<&str> = usual.iter().copied().cycle().take(usual.len() * 3).collect();
    // By then, values are in registers.
    passes.insert(1 + random.below(passes.len() as u64) as usize, planted);
    format!("function({})", passes.join(","))
}

/// Kernels with these numbers for a seed, in one program. Without optimisation, its undefined behaviour
/// does what programmers expect.
pub fn program(seed: u64, numbers: impl IntoIterator<Item = usize>) -> FailingProgram {
    let mut text = "// Made by tests/src/failing.rs.\n#include \"check.cuh\"\n\n".to_owned();
    let (mut launches, mut failures) = (String::new(), Vec::new());
    for number in numbers {
        let mut random = Random(seed.wrapping_add(number as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let name = format!("failing_{number}");
        let mut ty = random.one_of(&["int", "unsigned", "long long", "unsigned long long"]);
        let (before, body, pipeline, blame, is_rare) = match number % 8 {
            kind @ 0..=2 => {
                let fault = ["wrong-operator", "narrowed-store", "lost-store"][kind];
                let pipeline = around(&mut random, &format!("mneme-fault<{fault}>"));
                ("", random.one_of(&SUMS), pipeline, Blame::Pass, false)
            }
            3 => {
                let level = random.one_of(&["default<O1>", "default<O2>", "default<O3>"]);
                let pipeline = format!("default<O1>,function(mneme-fault<codegen>),{level}");
                ("", random.one_of(&SUMS), pipeline, Blame::BackEnd, false)
            }
            4 | 5 => {
                ty = "int";
                // Uses each kind in turn.
                let (before, body) = UNDEFINED[(number / 8 * 2 + number % 8 - 4) % UNDEFINED.len()];
                (before, body, random.one_of(&["default<O2>", "default<O3>"]).to_owned(), Blame::Kernel, false)
            }
            _ => {
                let pipeline = around(&mut random, "mneme-fault<lost-store>");
                ("", random.one_of(&COINS), pipeline, Blame::Pass, true)
            }
        };
        let fill = |template: &str, random: &mut Random| {
            let numbers = [
                ("$TYPE", ty.to_owned()),
                ("$KERNEL", name.clone()),
                ("$LENGTH", (3 + random.below(9)).to_string()),
                ("$NUMBER", (1000 + random.below(9000)).to_string()),
                ("$RATE", (2 + random.below(13)).to_string()),
            ];
            numbers.iter().fold(template.to_owned(), |text, (name, number)| text.replace(name, number))
        };
        text.push_str(&fill(
            &format!(
                "{before}__global__ void $KERNEL($TYPE *out, const $TYPE *in, int n) {{\n    \
                 int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);\n    if (i >= n)\n        return;\n    \
                 {body}\n}}\n\n"
            ),
            &mut random,
        ));
        let shape = if is_rare { "1, 1" } else { "2, 64" };
        launches.push_str(&fill(
            &format!(
                "    {{\n        std::vector<$TYPE> values(128);\n        for (size_t at = 0; at < values.size(); ++at)\n            \
                 values[at] = static_cast<$TYPE>(2147483647 - 120 + at % 121);\n        \
                 DeviceArray<$TYPE> in(values), out(256);\n        out.clear();\n        \
                 $KERNEL<<<{shape}>>>(out.get(), in.get(), {});\n        LAUNCH_OK();\n    }}\n",
                if is_rare { 1 } else { 128 }
            ),
            &mut random,
        ));
        failures.push(Failure { name, pipeline, blame, is_rare });
    }
    text.push_str(&format!("int main() {{\n{launches}    return finish(\"failing\", true, {});\n}}\n", failures.len()));
    FailingProgram { text, failures }
}
