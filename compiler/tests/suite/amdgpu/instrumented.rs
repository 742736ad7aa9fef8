//! Tests that instrumentation inserts only code that AMD GPUs support.

use inkwell::context::Context;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::FileType;
use mneme_builds::Target;
use mneme_builds::instrument::{Instrument, layout};
use mneme_compiler::architecture::CodegenArchitecture;
use mneme_compiler::instrument::{after, before};
use mneme_compiler::ir::diagnostics::Diagnostics;
use mneme_compiler::ir::{annotations, read};
use mneme_compiler::{BuildRequest, InputCode, build, prepare};

use super::clang::{Program, have_rocm, usual};

/// The kernel's assembly for the processor of its IR.
fn assembled(ir: &[u8], arch: &str, kernel: &str, instrument: Instrument, passes: &str) -> String {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = read::load(&context, &diagnostics, &[ir], true).unwrap();
    let architecture = CodegenArchitecture::of(&Target::gpu(arch), &module).unwrap();
    let machine = architecture.machine(3).unwrap();
    prepare::reduce(&module, kernel, &[], &machine).unwrap();
    let begun = before(&module, kernel, instrument, &machine).unwrap();
    module.run_passes(passes, &machine, PassBuilderOptions::create()).unwrap();
    let said = after(&module, instrument, begun, &machine).unwrap();
    assert_eq!(said.unwatched, Vec::<String>::new(), "{kernel}");
    let assembly = machine.write_to_memory_buffer(&module, FileType::Assembly).unwrap();
    String::from_utf8_lossy(assembly.as_slice()).into_owned()
}

fn kernels(ir: &[u8]) -> Vec<String> {
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = read::load(&context, &diagnostics, &[ir], false).unwrap();
    annotations::kernels(&module).into_iter().map(|kernel| kernel.name()).collect()
}

#[test]
fn instrumented_kernels_are_code_for_amd_s_gpus() {
    if !have_rocm() {
        return;
    }
    for (arch, version) in [("gfx90a", 4), ("gfx90a", 5), ("gfx1030", 5)] {
        let ir = Program { file: "kernels.hip", arch, version, flags: &[] }.ir();
        for kernel in kernels(&ir) {
            for instrument in [Instrument::Faults, Instrument::Writes, Instrument::Touched] {
                for passes in ["default<O0>", "default<O3>"] {
                    let text = assembled(&ir, arch, &kernel, instrument, passes);
                    assert!(text.contains(&format!(".amdhsa_kernel {kernel}\n")), "{arch} {kernel} {passes}");
                    // A reference that may lead outside the object. Mneme's functions must not be outside; the driver
                    // finds the variable.
                    let elsewhere = |line: &&str| {
                        line.contains("@gotpcrel32") && line.contains("__mneme_") && !line.contains(layout::STATE)
                    };
                    assert_eq!(text.lines().find(elsewhere), None, "{arch} {kernel} {instrument:?} {passes}");
                }
            }
        }
    }
}

/// Refused, because no GPU was available to run instrumented code on.
#[test]
fn a_gpu_of_amd_s_is_not_given_instrumented_code_yet() {
    if !have_rocm() {
        return;
    }
    let ir = Program { file: "kernels.hip", arch: "gfx90a", version: 5, flags: &[] }.ir();
    for (instrument, word) in
        [(Instrument::Faults, "--check"), (Instrument::Writes, "--wrote"), (Instrument::Touched, "--touched")]
    {
        let (modules, target, configuration) = ([&ir[..]], Target::gpu("gfx90a:sramecc+:xnack-"), usual());
        let mut request = BuildRequest::new(InputCode::Ir(&modules), "scale", &target, &configuration);
        request.instrument = Some(instrument);
        let message = build(&request).unwrap_err().to_string();
        assert!(message.contains(word) && message.contains("use --device cpu"), "{message}");
    }
}
