//! A generator of kernels with one planted fault each.
//!
//! Equal seeds give equal kernels. A kernel is right with [`SOUND_GRID`] blocks, and has the fault with [`FAULTY_GRID`]
//! blocks. So the program can be recorded on a GPU, where a fault would end it, and every kernel also tests that checks
//! report no fault in right code.

use mneme_model::observation::Fault;

/// Blocks without the fault, in the recorded launch.
pub const SOUND_GRID: u32 = 2;
/// Blocks with the fault.
pub const FAULTY_GRID: u32 = 3;
/// Threads of a block.
const THREADS: u64 = 64;

/// Pseudo-random numbers.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// SplitMix64.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// The kinds of planted faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    GlobalWrite,
    GlobalRead,
    StaticShared,
    DynamicShared,
    Local,
    SharedUnset,
    LocalUnset,
    BlockRace,
    WarpRace,
    Misaligned,
}

pub const KINDS: [Kind; 10] = [
    Kind::GlobalWrite,
    Kind::GlobalRead,
    Kind::StaticShared,
    Kind::DynamicShared,
    Kind::Local,
    Kind::SharedUnset,
    Kind::LocalUnset,
    Kind::BlockRace,
    Kind::WarpRace,
    Kind::Misaligned,
];

impl Kind {
    /// The fault that a check must report.
    pub fn fault(self) -> Fault {
        match self {
            Self::GlobalWrite | Self::GlobalRead | Self::StaticShared | Self::DynamicShared | Self::Local => {
                Fault::OutOfBounds
            }
            Self::SharedUnset | Self::LocalUnset => Fault::Uninitialised,
            Self::BlockRace | Self::WarpRace => Fault::Race,
            Self::Misaligned => Fault::Misaligned,
        }
    }
}

/// A kernel with a planted fault.
#[derive(Debug)]
pub struct Planted {
    pub kind: Kind,
    /// The kernel's name.
    pub name: String,
    /// The lines of the program at which the fault may be reported. A race has both accesses.
    pub lines: Vec<u32>,
}

/// A program whose kernels each have a planted fault.
#[derive(Debug)]
pub struct Program {
    pub text: String,
    pub planted: Vec<Planted>,
}

/// Element types, and their bytes.
const TYPES: [(&str, u64); 7] =
    [("unsigned char", 1), ("short", 2), ("int", 4), ("float", 4), ("long long", 8), ("double", 8), ("unsigned", 4)];

/// The values for a kernel's template.
struct Choice {
    ty: &'static str,
    bytes: u64,
    /// Elements of each buffer. At least 56 unused bytes follow it.
    count: u64,
    /// The last thread at fault.
    thread: u64,
    /// Elements of a local array.
    length: u64,
    random: u64,
}

impl Choice {
    fn of(random: &mut Random, types: &[(&'static str, u64)]) -> Self {
        let (ty, bytes) = random.one_of(types);
        let whole = u64::from(FAULTY_GRID) * THREADS;
        let count = (whole + 1 + random.below(40)..)
            .find(|count| (1..=200).contains(&(count * bytes % 256)))
            .expect("some number");
        Self { ty, bytes, count, thread: random.below(THREADS), length: 3 + random.below(10), random: random.draw() }
    }

    /// A number below `end` that depends on `which`.
    fn number(&self, which: u32, end: u64) -> u64 {
        self.random.rotate_right(8 * which) % end
    }

    /// Elements after a buffer's end that belong to no buffer.
    fn beyond(&self) -> u64 {
        let free = 256 - self.count * self.bytes % 256;
        self.number(0, (free / self.bytes).max(1))
    }

    fn fill(&self, template: &str, kernel: &str) -> String {
        let numbers = [
            ("THREADS", THREADS),
            ("THREAD", self.thread),
            ("COUNT", self.count),
            ("BEYOND", self.beyond()),
            ("BYTES", self.bytes),
            ("LENGTH", self.length),
            ("OTHER", 32 + self.number(1, 16)),
            ("LANE", 1 + self.number(2, 31)),
            ("SMALL", 1 + self.number(3, 2)),
        ];
        let filled = template.replace("$TYPE", self.ty).replace("$KERNEL", kernel);
        numbers.iter().fold(filled, |text, (name, number)| text.replace(&format!("${name}"), &number.to_string()))
    }
}

/// Variants of each kind: the lines before the kernel, and its body. `/*fault*/` marks lines that may be reported.
fn variants(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::GlobalWrite => &[
            ("", "out[faulty && thread == $THREAD ? n + $BEYOND : i] = in[i]; /*fault*/"),
            (
                "__device__ __noinline__ void put_$KERNEL($TYPE *to, int at, $TYPE value) {\n    to[at] = value; /*fault*/\n}\n",
                "put_$KERNEL(out, faulty && thread == $THREAD ? n + $BEYOND : i, in[i]);",
            ),
            (
                "",
                "for (int round = 0; round < $LENGTH; ++round)\n        if (round == thread % $LENGTH)\n            \
                 out[i - (faulty && i < 3 ? 3 : 0)] = in[i]; /*fault*/",
            ),
            (
                "struct Pair_$KERNEL {\n    $TYPE first, second;\n};\n",
                "auto *pairs = reinterpret_cast<Pair_$KERNEL *>(out);\n    const int pair = i / 2;\n    \
                 if (i % 2 == 0)\n        pairs[faulty && pair == 0 ? (n + 1) / 2 + $BEYOND / 4 : pair].second = in[i]; /*fault*/",
            ),
        ],
        Kind::GlobalRead => &[
            ("", "out[i] = in[faulty && thread == $THREAD ? n + $BEYOND : i]; /*fault*/"),
            ("", "out[i] = in[i - (faulty && i == 0 ? $SMALL : 0)]; /*fault*/"),
            (
                "__device__ __noinline__ $TYPE get_$KERNEL(const $TYPE *from, int at) {\n    return from[at]; /*fault*/\n}\n",
                "out[i] = get_$KERNEL(in, faulty && thread >= $THREAD ? n + $BEYOND : i);",
            ),
            (
                "",
                "$TYPE sum = 0;\n    const int last = faulty && i == 0 ? n + 1 : n;\n    \
                 for (int at = i; at < last; at += $LENGTH)\n        for (int step = 0; step < $LENGTH && at + step < last; ++step)\n            \
                 sum += in[at + step]; /*fault*/\n    out[i] = sum;",
            ),
        ],
        Kind::StaticShared => &[
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    __shared__ $TYPE others[$THREADS];\n    \
                 others[thread] = in[i];\n    \
                 values[faulty && thread == $THREAD ? $THREADS + thread % 2 : thread] = in[i]; /*fault*/\n    \
                 __syncthreads();\n    out[i] = values[thread] + others[$THREADS - 1 - thread];",
            ),
            (
                "",
                "__shared__ $TYPE values[$THREADS + 1];\n    values[thread] = in[i];\n    if (thread == 0)\n        \
                 values[$THREADS] = in[0];\n    __syncthreads();\n    \
                 out[i] = values[thread + (faulty ? 2 : 1)]; /*fault*/",
            ),
            (
                "",
                "__shared__ $TYPE grid[8][9];\n    const int x = thread % 8, y = thread / 8;\n    \
                 grid[y + (faulty && y == 7 ? 1 : 0)][x] = in[i]; /*fault*/\n    __syncthreads();\n    \
                 out[i] = grid[y][x];",
            ),
        ],
        Kind::DynamicShared => &[
            (
                "",
                "extern __shared__ __align__(16) unsigned char scratch[];\n    auto *values = reinterpret_cast<$TYPE *>(scratch);\n    \
                 values[thread + (faulty && thread == $THREADS - 1 ? $SMALL : 0)] = in[i]; /*fault*/\n    \
                 __syncthreads();\n    out[i] = values[thread];",
            ),
            (
                "",
                "extern __shared__ __align__(16) unsigned char scratch[];\n    auto *values = reinterpret_cast<$TYPE *>(scratch);\n    \
                 values[thread] = in[i];\n    __syncthreads();\n    \
                 out[i] = values[faulty ? thread + $OTHER : (thread + $OTHER) % $THREADS]; /*fault*/",
            ),
        ],
        Kind::Local => &[
            (
                "",
                "$TYPE table[$LENGTH];\n    for (int k = 0; k < $LENGTH; ++k)\n        table[k] = in[(i + k) % n];\n    \
                 out[i] = table[thread % $LENGTH + (faulty && thread == $THREAD ? $LENGTH : 0)]; /*fault*/",
            ),
            (
                "",
                "$TYPE table[$LENGTH] = {};\n    for (int k = 0; k < $LENGTH + (faulty ? 1 : 0); ++k)\n        \
                 table[k * gridDim.y] = in[(i + k) % n]; /*fault*/\n    out[i] = table[thread % $LENGTH];",
            ),
            (
                "",
                "$TYPE table[$LENGTH];\n    for (int k = 0; k < $LENGTH; ++k)\n        table[k] = 0;\n    \
                 table[thread % $LENGTH - (faulty && thread % $LENGTH == 0 ? 1 : 0)] = in[i]; /*fault*/\n    \
                 out[i] = table[(thread + 1) % $LENGTH];",
            ),
        ],
        Kind::SharedUnset => &[
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    if (!faulty || thread != $THREAD)\n        values[thread] = in[i];\n    \
                 __syncthreads();\n    out[i] = values[(thread + $OTHER) % $THREADS]; /*fault*/",
            ),
            (
                "",
                "extern __shared__ __align__(16) unsigned char scratch[];\n    auto *values = reinterpret_cast<$TYPE *>(scratch);\n    \
                 if (!faulty || thread < 32)\n        values[thread] = in[i];\n    __syncthreads();\n    $TYPE sum = 0;\n    \
                 for (int k = 0; k < $LENGTH; ++k)\n        sum += values[(thread + k) % $THREADS]; /*fault*/\n    out[i] = sum;",
            ),
            (
                "",
                "__shared__ $TYPE total;\n    if (thread == 0 && !faulty)\n        total = in[0];\n    __syncthreads();\n    \
                 out[i] = in[i] + total; /*fault*/",
            ),
        ],
        Kind::LocalUnset => &[
            (
                "",
                "$TYPE table[$LENGTH];\n    for (int k = 0; k < $LENGTH; ++k)\n        if (!faulty || k != 1)\n            \
                 table[k] = in[(i + k) % n];\n    out[i] = table[thread % $LENGTH]; /*fault*/",
            ),
            (
                "",
                "$TYPE table[$LENGTH];\n    const int end = faulty ? $LENGTH - 1 : $LENGTH;\n    for (int k = 0; k < end; ++k)\n        \
                 table[k] = in[(i + k) % n];\n    $TYPE sum = 0;\n    for (int k = 0; k < $LENGTH; ++k)\n        \
                 sum += table[(k + thread) % $LENGTH]; /*fault*/\n    out[i] = sum;",
            ),
            (
                "",
                "$TYPE table[$LENGTH];\n    for (int k = 0; k < $LENGTH; ++k)\n        if (!faulty || k % 2 == 0)\n            \
                 table[k * gridDim.y] = in[(i + k) % n];\n    \
                 out[i] = table[(thread + n) % $LENGTH] > 3 ? in[i] : 0; /*fault*/",
            ),
        ],
        Kind::BlockRace => &[
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    values[thread] = in[i]; /*fault*/\n    if (!faulty)\n        \
                 __syncthreads();\n    out[i] = values[(thread + $OTHER) % $THREADS]; /*fault*/",
            ),
            (
                "",
                "__shared__ $TYPE value;\n    $TYPE sum = 0;\n    for (int round = 0; round < $LENGTH; ++round) {\n        \
                 if (thread == (round * 32 + round) % $THREADS)\n            value = in[round]; /*fault*/\n        \
                 __syncthreads();\n        sum += value; /*fault*/\n        if (!faulty)\n            __syncthreads();\n    }\n    \
                 out[i] = sum;",
            ),
            (
                "",
                "__shared__ $TYPE last;\n    if (faulty ? thread % 32 == $THREAD % 32 : thread == $THREAD)\n        \
                 last = static_cast<$TYPE>(thread + 1); /*fault*/\n    __syncthreads();\n    out[i] = in[i] + last;",
            ),
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    values[thread] = in[i];\n    __syncthreads();\n    \
                 for (int half = $THREADS / 2; half > 0; half /= 2) {\n        if (thread < half)\n            \
                 values[thread] += values[thread + half]; /*fault*/\n        if (!faulty)\n            __syncthreads();\n    }\n    \
                 __syncthreads();\n    out[i] = values[0];",
            ),
        ],
        Kind::WarpRace => &[
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    values[thread] = in[i]; /*fault*/\n    if (!faulty)\n        \
                 __syncwarp();\n    out[i] = values[thread ^ $LANE]; /*fault*/",
            ),
            (
                "",
                "__shared__ $TYPE values[$THREADS];\n    const int warp = thread / 32 * 32;\n    values[thread] = in[i]; /*fault*/\n    \
                 __syncwarp();\n    const $TYPE next = values[warp + (thread + $LANE) % 32]; /*fault*/\n    if (!faulty)\n        \
                 __syncwarp();\n    values[thread] = next; /*fault*/\n    __syncthreads();\n    out[i] = values[$THREADS - 1 - thread];",
            ),
        ],
        Kind::Misaligned => &[
            (
                "",
                "auto *bytes = reinterpret_cast<const char *>(in) + thread * $BYTES;\n    \
                 out[i] = *reinterpret_cast<const $TYPE *>(bytes + (faulty && thread == $THREAD ? 1 : 0)); /*fault*/",
            ),
            (
                "",
                "auto *bytes = reinterpret_cast<char *>(out) + i * $BYTES;\n    \
                 *reinterpret_cast<$TYPE *>(bytes + (faulty ? $BYTES / 2 : 0)) = in[i]; /*fault*/",
            ),
            (
                "",
                "__shared__ __align__(16) unsigned char scratch[($THREADS + 1) * $BYTES];\n    \
                 for (int k = thread; k < ($THREADS + 1) * $BYTES; k += $THREADS)\n        scratch[k] = k;\n    __syncthreads();\n    \
                 out[i] = *reinterpret_cast<const $TYPE *>(scratch + thread * $BYTES + (faulty ? $BYTES / 2 : 0)); /*fault*/",
            ),
        ],
    }
}

/// The program with these kernels for a seed.
pub fn program(seed: u64, numbers: impl IntoIterator<Item = usize>) -> Program {
    let mut text = "// Made by tests/src/planting.rs.\n#include \"check.cuh\"\n\n".to_owned();
    let mut launches = String::new();
    let mut planted = Vec::new();
    for number in numbers {
        let mut random = Random(seed.wrapping_add(number as u64).wrapping_mul(0x5851_f42d_4c95_7f2d));
        let kind = KINDS[number % KINDS.len()];
        let types = if kind == Kind::Misaligned { &TYPES[1..] } else { &TYPES[..] };
        let choice = Choice::of(&mut random, types);
        let (before, body) = random.one_of(variants(kind));
        let name = format!("planted_{number}");
        let first = text.lines().count();
        let kernel = format!(
            "{before}__global__ void $KERNEL($TYPE *out, const $TYPE *in, int n) {{\n    \
             const bool faulty = gridDim.x == {FAULTY_GRID};\n    const int thread = threadIdx.x;\n    \
             const int i = blockIdx.x * $THREADS + thread;\n    {body}\n}}\n\n"
        );
        text.push_str(&choice.fill(&kernel, &name));
        let lines = (1..).zip(text.lines()).skip(first).filter(|(_, line)| line.contains("/*fault*/"));
        planted.push(Planted { kind, name: name.clone(), lines: lines.map(|(number, _)| number).collect() });
        launches.push_str(&choice.fill(
            &format!(
                "    {{\n        std::vector<$TYPE> values($COUNT);\n        for (size_t at = 0; at < values.size(); ++at)\n            \
                 values[at] = static_cast<$TYPE>(at * 7 + 1);\n        DeviceArray<$TYPE> in(values), out($COUNT);\n        \
                 out.clear();\n        $KERNEL<<<{SOUND_GRID}, $THREADS, $THREADS * $BYTES>>>(out.get(), in.get(), $COUNT);\n    \
                 LAUNCH_OK();\n    }}\n"
            ),
            &name,
        ));
    }
    text.push_str(&format!("int main() {{\n{launches}    return finish(\"planted\", true, {});\n}}\n", planted.len()));
    Program { text, planted }
}
