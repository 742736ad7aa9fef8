//! Measures how many builds per second Mneme makes of a kernel, without a device.
//!
//! The configurations are those of the preset `full`:
//!
//! cargo run --release -p mneme-compiler --example builds -- tests/apps/microphysics.cu [BUILDS [BUILDERS [SEED]]]
//!
//! Configurations are random and distinct; the code is for sm_90. You need clang 19, the CUDA toolkit that
//! `scripts/setup` assembles, and `mneme-build` beside the examples' folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mneme_builds::builder::{BuildProgram, Preparation};
use mneme_builds::protocol::{BuildOrder, BuildReply, CodeParts, Greeted, Opening};
use mneme_builds::{BuildPlan, BuildSpec, RecordedKernel, Target};
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_recording::manifest::RecordedArgument;
use mneme_sandbox::frame;

/// A small generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

fn device_bitcode(source: &Path) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace");
    let output = Command::new("clang++-19")
        .args(["-x", "cuda", "--cuda-gpu-arch=sm_90", "-O3", "-std=c++17", "-w", "--cuda-device-only", "-emit-llvm"])
        .args(["-c", "-Xclang", "-disable-llvm-passes", "-o", "-"])
        .arg(format!("--cuda-path={}", root.join(".deps/cuda").display()))
        .arg(source)
        .output()
        .expect("clang++-19 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn configuration(random: &mut Random) -> Configuration {
    let threads = 1 << (5 + random.below(6));
    let mut it = Configuration::recorded(Dim3::new(100_000 / threads, 1, 1), Dim3::new(threads, 1, 1), 0);
    it.passes = format!("default<{}>", ["O3", "O2", "O1", "Os", "Oz"][random.below(5) as usize]);
    it.codegen_opt = 1 + random.below(3) as u8;
    it.specialize = (random.below(2) == 1).into();
    it.specialize_dims = random.below(2) == 1;
    it.set_launch_bounds = random.below(2) == 1;
    if it.set_launch_bounds {
        it.max_threads = Some(threads);
        it.min_blocks_per_sm = 1 + random.below(8) as u32;
    }
    it
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, otherwise: u64| {
        words.get(place).map_or(otherwise, |word| word.parse().expect("a number of builds, of builders, or a seed"))
    };
    let source = PathBuf::from(words.first().expect("a source of tests/apps"));
    let (count, builders, mut random) = (number(1, 120), number(2, 2) as usize, Random(number(3, 1)));
    let bitcode = device_bitcode(&source);
    let name = source.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
    let context = inkwell::context::Context::create();
    let buffer = inkwell::memory_buffer::MemoryBuffer::create_from_memory_range_copy(&bitcode, "kernel");
    let module = inkwell::module::Module::parse_bitcode_from_buffer(&buffer, &context).expect("clang writes bitcode");
    let kernels = mneme_compiler::ir::annotations::kernels(&module).into_iter().map(|kernel| kernel.name());
    let kernel = kernels.into_iter().find(|it| it.contains(&name)).expect("a kernel of the program's name");
    let interface = mneme_compiler::interface::of(&[&bitcode], &kernel).expect("the kernel has an interface");
    let value = |kind: &str, size: u32| match kind {
        "float" => 1.5f32.to_le_bytes().to_vec(),
        "double" => 1.5f64.to_le_bytes().to_vec(),
        "ptr" => 0x7000_0000_0000u64.to_le_bytes().to_vec(),
        _ => (0..size).map(|place| if place == 0 { 48 } else { 0 }).collect(),
    };
    let arguments = interface.arguments.iter();
    let arguments =
        arguments.map(|it| RecordedArgument { offset: it.offset, bytes: value(&it.kind, it.size) }).collect::<Vec<_>>();
    let recorded = RecordedKernel {
        name: kernel,
        launches: vec![vec![0; arguments.len()]],
        arguments,
        ..RecordedKernel::default()
    };
    let plan = BuildPlan { recorded, ..BuildPlan::default() };

    let own = std::env::current_exe().expect("this program has a path");
    let program = own
        .parent()
        .and_then(Path::parent)
        .expect("the examples are in a folder below the programs")
        .join("mneme-build");
    let program = BuildProgram::at(program);
    let mut process = program.process(Preparation::Full).expect("mneme-build starts");
    let stream = &mut process.stream;
    frame::read::<Greeted>(stream).expect("a greeting").expect("a greeting").0.expect("a greeting");
    let (parts, blob) = CodeParts::join(&[bitcode], None);
    frame::write(stream, &Opening::Plan(Box::new(plan), parts), &blob).expect("the plan is taken");

    let mut orders = HashMap::new();
    while orders.len() < count as usize {
        let spec = BuildSpec::new(configuration(&mut random));
        orders.insert(spec.key().to_string(), spec);
    }
    let mut keys: Vec<String> = orders.keys().cloned().collect();
    keys.sort();
    let start = Instant::now();
    let (mut at_work, mut next, mut assembled, mut failed) = (0, 0, 0, 0);
    let (mut preprocess, mut optimise, mut codegen) = (0.0, 0.0, 0.0);
    let mut codes = std::collections::BTreeMap::new();
    while next < keys.len() || at_work > 0 {
        while at_work < builders && next < keys.len() {
            let target = Target::Nvptx { arch: "sm_90".into() };
            let spec = orders[&keys[next]].clone();
            let order = BuildOrder { number: next as u64, target, spec, limit: Duration::from_secs(60) };
            frame::write(stream, &order, &[]).expect("an order is taken");
            (next, at_work) = (next + 1, at_work + 1);
        }
        let (reply, image) = frame::read::<BuildReply>(stream).expect("a reply").expect("a reply");
        at_work -= 1;
        assembled += usize::from(reply.assembled);
        match reply.outcome {
            Some(Ok(built)) => {
                preprocess += built.preprocess;
                optimise += built.optimise;
                codegen += built.codegen;
                codes.insert(reply.number, mneme_model::hash::chunk_id(&image).to_string());
            }
            Some(Err(error)) => {
                failed += 1;
                eprintln!("{}", error.error);
            }
            None => failed += 1,
        }
    }
    let (seconds, done) = (start.elapsed().as_secs_f64(), codes.len() as f64);
    let all: Vec<u8> = codes.values().flat_map(|code| code.bytes()).collect();
    println!(
        "{name}: {:.1} builds a second by {builders} builders ({done} in {seconds:.1} s, {assembled} assembled, {failed} failed); \
         specialise {:.0} ms, pipeline {:.0} ms, code generation and assembly {:.0} ms of each; codes {}",
        done / seconds,
        1e3 * preprocess / done,
        1e3 * optimise / done,
        1e3 * codegen / done,
        mneme_model::hash::chunk_id(&all)
    );
}
