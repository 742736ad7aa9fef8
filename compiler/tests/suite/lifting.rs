//! Tests that lift nvcc's PTX of the end-to-end suite's programs.
//!
//! They need the nvcc of `scripts/setup` (`.deps/nvcc`). They lift a few programs, or all with `MNEME_LIFT_ALL=1`.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_builds::{ImageKind, Target};
use mneme_compiler::{Artifact, BuildError, BuildRequest, InputCode, build};
use mneme_image::ptx::PtxModule;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;

const FEW: [&str; 8] = ["vecadd", "matmul", "globals", "math", "parameters", "pointers", "clusters", "assertion"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn target() -> Target {
    Target::Nvptx { arch: "sm_90".into() }
}

fn configuration(passes: &str) -> Configuration {
    let mut configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0);
    (configuration.passes, configuration.lift) = (passes.into(), true);
    configuration
}

fn built(text: &str, kernel: &str, configuration: &Configuration) -> Result<Artifact, BuildError> {
    let target = target();
    build(&BuildRequest::new(InputCode::Ptx(text), kernel, &target, configuration))
}

/// The PTX of programs by name; empty without nvcc, or if `MNEME_TEST_NVCC` is `none`.
fn programs() -> Vec<(String, String)> {
    let nvcc = root().join(".deps/nvcc/bin/nvcc");
    if !nvcc.is_file() || std::env::var_os("MNEME_TEST_NVCC").is_some_and(|wanted| wanted == "none") {
        eprintln!("there is no {}, or it is not wanted: not run", nvcc.display());
        return Vec::new();
    }
    let all = std::env::var_os("MNEME_LIFT_ALL").is_some();
    let folder = root().join("tests/apps");
    let mut sources: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .filter(|path| all || path.file_stem().is_some_and(|name| FEW.contains(&&*name.to_string_lossy())))
        .collect();
    sources.sort();
    let compile = |source: PathBuf| {
        let name = source.file_stem()?.to_string_lossy().into_owned();
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(&nvcc);
        command.args(["-ptx", "-arch=sm_90", "-O3", "-std=c++17", "-I"]).arg(&folder).arg("-o").arg(output.path());
        let said = command.arg(&source).output().unwrap();
        // nvcc cannot compile some programs.
        let text = said.status.success().then(|| std::fs::read_to_string(output.path()).unwrap());
        assert!(all || text.is_some(), "{}", String::from_utf8_lossy(&said.stderr));
        Some((name, text?))
    };
    sources.into_iter().filter_map(compile).collect()
}

#[test]
fn programs_of_nvcc_lift_and_assemble_under_every_pipeline() {
    let (mut instructions, mut assembly, mut kernels) = (0, 0, 0);
    for (name, text) in programs() {
        let lifted = mneme_ptx::lift(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        instructions += lifted.statistics.instructions;
        assembly += lifted.statistics.in_assembly();
        for kernel in PtxModule::parse(&text).kernels() {
            kernels += 1;
            for passes in ["", "default<O1>", "default<O2>", "default<O3>"] {
                let artifact = built(&text, kernel, &configuration(passes))
                    .unwrap_or_else(|error| panic!("{name}: {kernel} under '{passes}': {error}"));
                assert!(artifact.lifted && artifact.kind == ImageKind::Cubin, "{name}: {kernel}");
            }
        }
    }
    eprintln!("{kernels} kernels, {instructions} instructions, {assembly} of them inline assembly");
    assert!(assembly * 50 <= instructions, "{assembly} of {instructions}");
}

const KERNEL: &str = ".version 8.3\n.target sm_90\n.address_size 64\n\
    .visible .entry scale(.param .u64 data, .param .u32 n) .maxntid 256 {\n\
    .reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %p<2>;\n\
    ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;\n\
    cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3; ld.global.f32 %f1, [%rd4];\n\
    mul.f32 %f2, %f1, 0f40000000; st.global.f32 [%rd4], %f2; END: ret; }\n";

#[test]
fn ptx_is_lifted_where_a_field_asks_for_ir_and_else_assembled_as_it_is() {
    let mut plain = configuration("default<O3>");
    plain.lift = false;
    let as_it_is = built(KERNEL, "scale", &plain).unwrap();
    assert!(!as_it_is.lifted && as_it_is.ptx.as_deref() == Some(KERNEL));
    type Change = fn(&mut Configuration);
    let changes: [Change; 7] = [
        |it| it.lift = true,
        |it| it.passes = "default<O1>".into(),
        |it| it.codegen_opt = 1,
        |it| it.set_launch_bounds = true,
        |it| it.specialize_dims = true,
        |it| it.fast_math = true,
        |it| it.llvm = Some(23),
    ];
    for change in changes {
        let mut configuration = plain.clone();
        change(&mut configuration);
        let artifact = built(KERNEL, "scale", &configuration).unwrap();
        assert!(artifact.lifted && artifact.log.iter().any(|line| line.starts_with("lifted from PTX")));
        let ptx = artifact.ptx.unwrap();
        assert!(ptx.contains(".version 8.3\n") && ptx.contains(".target sm_90\n"), "{ptx}");
    }
    let bounds = Configuration { set_launch_bounds: true, max_threads: Some(64), ..plain.clone() };
    let ptx = built(KERNEL, "scale", &bounds).unwrap().ptx.unwrap();
    assert!(ptx.contains(".maxntid 64") && !ptx.contains("256"), "{ptx}");
    let own = built(KERNEL, "scale", &configuration("default<O3>")).unwrap().ptx.unwrap();
    assert!(own.contains(".maxntid 256"), "{own}");
}

#[test]
fn what_cannot_be_lifted_is_refused_by_name_and_the_field_too() {
    let text = KERNEL.replace("END: ret;", "END: ret; .reg .b64 %sp; stacksave.u64 %sp;");
    let error = built(&text, "scale", &configuration("default<O1>")).unwrap_err();
    assert!(error.is_usage(), "{error}");
    let message = error.to_string();
    assert!(message.contains("stacksave.u64") && message.contains("leave passes out"), "{message}");
    let missing = built(KERNEL, "other", &configuration("default<O1>")).unwrap_err().to_string();
    assert!(missing.contains("no kernel named other"), "{missing}");
}

/// A kernel of ten thousand instructions.
fn large() -> String {
    use std::fmt::Write as _;
    let mut text = String::from(
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry large(.param .u64 out) {\n\
         .reg .b64 %rd<9>; .reg .b32 %r<9000>; .reg .f32 %f<9000>; .reg .pred %p<3000>;\n\
         ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r0, %tid.x; mov.f32 %f0, 0f3F800000;\n",
    );
    for number in 0..2000 {
        let next = number + 1;
        let _ = write!(
            text,
            "mad.lo.s32 %r{next}, %r{number}, 5, {number};\nld.global.f32 %f{next}, [%rd2+{}];\n\
             fma.rn.f32 %f{next}, %f{next}, %f{number}, %f{number};\nsetp.gt.f32 %p{number}, %f{next}, %f0;\n\
             @%p{number} st.global.f32 [%rd2+{}], %f{next};\n",
            number * 4,
            number * 8
        );
        if number % 20 == 0 {
            let _ = writeln!(text, "@%p{number} bra L{number};\nadd.f32 %f0, %f0, %f{next};\nL{number}:");
        }
    }
    text + "ret; }\n"
}

#[test]
fn large_kernels_lift_quickly() {
    let text = large();
    let start = std::time::Instant::now();
    let lifted = mneme_ptx::lift(&text).unwrap();
    let emitted = start.elapsed();
    let mut configuration = configuration("");
    configuration.codegen_opt = 0;
    let target = target();
    let mut request = BuildRequest::new(InputCode::Ptx(&text), "large", &target, &configuration);
    request.keep.until = Some(mneme_builds::progress::Stage::Pipeline);
    let artifact = build(&request).unwrap();
    eprintln!(
        "{} instructions: {emitted:.1?} to IR; {:.1} ms to LLVM's module, {:.1} ms cleaned up and specialised",
        lifted.statistics.instructions,
        artifact.times.read * 1e3,
        artifact.times.specialise * 1e3
    );
    // The limit allows for a machine that is busy.
    assert!(emitted.as_secs_f64() < 1.0, "{emitted:?}");
}
