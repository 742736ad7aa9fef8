//! Tests that the application's own code has the metadata and machine code of clang.
//!
//! They check a few applications, or all with `MNEME_TEST_FIDELITY=all`.

use mneme_builds::progress::Stage;
use mneme_builds::{Keep, Target};
use mneme_compiler::{BuildRequest, InputCode, build};
use mneme_image::code_object::{self, AmdKernel, CodeObject};
use mneme_image::{bundle, elf, ir_section};
use mneme_model::architecture::Processor;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_recording::manifest::RecordedVariable;

use super::clang::{Program, build_for, compiled, have_rocm, is_known, kernel_of, usual, versions};

/// Removes the names of arguments, which only recorded IR keeps.
fn nameless(kernel: &AmdKernel) -> AmdKernel {
    let mut kernel = kernel.clone();
    kernel.arguments.iter_mut().for_each(|argument| argument.name.clear());
    kernel
}

/// Removes the register counts, which depend on the rest of the program.
fn without_resources(kernel: &AmdKernel) -> AmdKernel {
    let none = AmdKernel::default();
    AmdKernel {
        sgprs: none.sgprs,
        vgprs: none.vgprs,
        agprs: none.agprs,
        private_segment: none.private_segment,
        code_size: none.code_size,
        ..nameless(kernel)
    }
}

/// In this program, a function with several callers is called. With only one caller left, it is inlined.
const SHARES_FUNCTIONS: &str = "says";

fn compare(program: Program<'_>) {
    let image = program.code_object();
    let theirs = code_object::parse(&image).expect("clang makes a code object");
    assert_eq!(theirs.version, program.version);
    assert!(theirs.kernels.len() >= 3);
    let ir = program.ir();
    for expected in &theirs.kernels {
        let artifact = build_for(&[&ir], &expected.name, program.arch, &usual()).unwrap();
        let (ours, kernel) = kernel_of(&artifact.image, &expected.name);
        let what = format!("{} of {program:?}", expected.name);
        assert_eq!((&ours.processor, ours.version), (&theirs.processor, theirs.version), "{what}");
        assert_eq!(without_resources(&kernel), without_resources(expected), "{what}");
        if expected.name != SHARES_FUNCTIONS {
            assert_eq!(nameless(&kernel), nameless(expected), "{what}");
        }
        assert_eq!(ours.kernels.len(), 1, "{what}: the others are pruned");
    }
    // With the whole program, the instructions are clang's to the byte. Names would move the data that they refer to.
    let ir = program.nameless_ir();
    let whole = Configuration { prune: false, ..usual() };
    let artifact = build_for(&[&ir], &theirs.kernels[0].name, program.arch, &whole).unwrap();
    let ours = code_object::parse(&artifact.image).unwrap();
    let all = |object: &CodeObject| object.kernels.iter().map(nameless).collect::<Vec<_>>();
    for (ours, theirs) in all(&ours).iter().zip(all(&theirs)) {
        assert_eq!(*ours, theirs, "{program:?}");
    }
    assert_eq!(ours.kernels.len(), theirs.kernels.len(), "{program:?}");
    // Code that refers to variables contains their distance, which depends on the rest of the object.
    if program.file == "bare.hip" {
        assert!(elf::section(&artifact.image, ".text") == elf::section(&image, ".text"), "{program:?}");
    }
}

/// With headers and device libraries, as code objects of the newest version.
fn from_source(arch: &str) {
    if let Some(version) = versions().last() {
        compare(Program { file: "kernels.hip", arch, version, flags: &[] });
    }
}

#[test]
fn gfx906_is_clangs() {
    from_source("gfx906");
}

#[test]
fn gfx908_is_clangs() {
    from_source("gfx908");
}

#[test]
fn gfx90a_is_clangs() {
    for version in versions() {
        compare(Program { file: "kernels.hip", arch: "gfx90a", version, flags: &[] });
    }
}

// Later versions dropped it.
#[cfg(any(feature = "llvm19", feature = "llvm20"))]
#[test]
fn gfx940_is_clangs() {
    from_source("gfx940");
}

#[test]
fn gfx1030_is_clangs() {
    from_source("gfx1030");
}

/// Processors that Debian 12's device libraries do not know.
const NEWER: [&str; 3] = ["gfx942", "gfx1100", "gfx1201"];

#[test]
fn newer_processors_are_clangs() {
    NEWER.into_iter().filter(|arch| is_known(arch)).for_each(from_source);
}

#[test]
fn newer_processors_are_clangs_without_device_libraries() {
    for arch in NEWER {
        for version in [4, 5, 6] {
            compare(Program { file: "bare.hip", arch, version, flags: &[] });
        }
    }
}

/// Objects that `mneme-cc` makes from programs of `tests/apps`. They contain clang's code objects and the IR.
#[test]
fn kernels_of_the_applications_are_clangs() {
    if !have_rocm() {
        return;
    }
    let all = std::env::var("MNEME_TEST_FIDELITY").is_ok_and(|which| which == "all");
    let applications = if all { APPLICATIONS } else { &APPLICATIONS[..A_FEW] };
    let archs: Vec<&str> = ["gfx90a"].into_iter().chain(NEWER).filter(|arch| is_known(arch)).collect();
    for application in applications {
        let object = compiled(application, &archs);
        let bundle = bundle::plain(elf::section(&object, ".hip_fatbin").unwrap()).unwrap();
        let units = ir_section::decode(elf::section(&object, ir_section::SECTION).unwrap());
        for arch in &archs {
            let entries = bundle::entries(&bundle);
            let entry = entries.iter().find(|entry| entry.processor() == *arch).unwrap();
            let theirs = code_object::parse(entry.bytes).unwrap();
            let ir = units.iter().find(|unit| unit.table.arch == *arch).unwrap().bitcode().unwrap();
            assert!(!theirs.kernels.is_empty(), "{application}");
            for expected in &theirs.kernels {
                let what = format!("{} of {application} for {arch}", expected.name);
                let artifact = build_for(&[&ir], &expected.name, arch, &usual()).unwrap();
                let (ours, kernel) = kernel_of(&artifact.image, &expected.name);
                assert_eq!((&ours.processor, ours.version), (&theirs.processor, theirs.version), "{what}");
                assert_eq!(without_resources(&kernel), without_resources(expected), "{what}");
            }
        }
    }
}

/// The number of applications to compile, unless `MNEME_TEST_FIDELITY` is `all`.
const A_FEW: usize = 4;
const APPLICATIONS: &[&str] = &[
    "hip/shared.hip", "hip/waves.hip", "bigstruct.cu", "reduce.cu", "hip/atomic_kinds.hip", "hip/cooperating.hip",
    "hip/dims.hip", "hip/printing.hip", "hip/reconverge.hip", "atomics.cu", "chemistry.cu", "floatsum.cu",
    "functor.cu", "globals.cu", "histogram.cu", "lambda.cu", "list.cu", "math.cu", "matmul.cu", "microphysics.cu",
    "nbody.cu", "parameters.cu", "print.cu", "saxpy.cu", "stencil.cu", "variables.cu", "vecadd.cu", "volumes.cu",
];

#[test]
fn features_and_sizes_of_waves_come_from_the_ir() {
    let xnack = Program { file: "bare.hip", arch: "gfx90a:sramecc+:xnack-", version: 5, flags: &[] };
    compare(xnack);
    let artifact = build_for(&[&xnack.ir()], "scale", "gfx90a:sramecc+:xnack-", &usual()).unwrap();
    let (object, _) = kernel_of(&artifact.image, "scale");
    assert_eq!(object.processor, Processor { name: "gfx90a".into(), xnack: Some(false), sramecc: Some(true) });
    let wide = Program { file: "bare.hip", arch: "gfx1030", version: 5, flags: &["-mwavefrontsize64"] };
    compare(wide);
    let (_, kernel) = kernel_of(&build_for(&[&wide.ir()], "scale", "gfx1030", &usual()).unwrap().image, "scale");
    assert_eq!(kernel.wavefront_size, 64);
}

/// The definition of a kernel in a module's text, without metadata, attributes and names of values.
fn definition(ir: &str, kernel: &str) -> String {
    let start = ir.find(&format!("@{kernel}(")).expect("it is there");
    let text = ir[start..].split("\n}").next().unwrap().lines().map(|line| {
        let code = line.split([';', '#']).next().unwrap_or("");
        code.split(", ").filter(|part| !part.starts_with('!')).collect::<Vec<_>>().join(", ")
    });
    let mut names = std::collections::BTreeMap::new();
    let parts = text.flat_map(|line| (line + "\n").split('%').map(str::to_owned).collect::<Vec<_>>());
    let values = parts.map(|part| {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c))).unwrap_or(part.len());
        let next = names.len();
        let number = *names.entry(part[..end].to_owned()).or_insert(next);
        format!("%{number}{}", &part[end..])
    });
    values.collect()
}

#[test]
fn passes_see_variables_as_the_applications_did() {
    if !have_rocm() {
        return;
    }
    let variables = [("total", 4, false), ("weights", 64, true)].map(|(name, size, constant)| RecordedVariable {
        name: name.into(),
        address: 0x7f12_3400 + 0x1000 * size,
        size,
        constant,
        code: false,
        functions: Vec::new(),
    });
    for arch in ["gfx90a", "gfx1030"] {
        let program = Program { file: "kernels.hip", arch, version: 5, flags: &[] };
        let (ir, theirs) = (program.ir(), program.optimised_ir());
        let (modules, target, configuration) = ([&ir[..]], Target::gpu(arch), usual());
        let application = CompileOptions::of_clang(&["-O3".into(), "-x".into(), "hip".into()]);
        for kernel in ["variables", "weighted"] {
            let mut request = BuildRequest::new(InputCode::Ir(&modules), kernel, &target, &configuration);
            request.recorded.variables = &variables;
            request.recorded.compiled = Some(&application);
            request.keep = Keep { after: true, until: Some(Stage::Pipeline), ..Keep::default() };
            let ours = variables.iter().fold(build(&request).unwrap().ir.unwrap(), |ir, variable| {
                let space = if variable.constant { 4 } else { 1 };
                let address = format!("inttoptr (i64 {} to ptr addrspace({space}))", variable.address);
                ir.replace(&address, &format!("@{}", variable.name))
            });
            assert!(ours.contains("@weights") && !ours.contains("@weights = "), "{ours}");
            assert_eq!(definition(&ours, kernel), definition(&theirs, kernel), "{kernel} for {arch}");
        }
    }
}
