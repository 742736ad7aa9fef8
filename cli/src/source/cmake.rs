//! Writes the CMake file with the options that compile kernels as they were tuned.

use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;

use super::{TunedKernel, TunedLaunch, provenance};

const HEAD: &str = "# Compiler options of the configurations that mneme tune found, written by mneme export --cmake.
#
#     include(tuned.cmake)
#     set_source_files_properties(kernels.cu PROPERTIES COMPILE_OPTIONS \"${MNEME_TUNED_KERNEL_CLANG}\")
#
# ..._CLANG is for clang, ..._NVCC for nvcc. They hold for all kernels of a source file.
";

pub fn text(kernels: &[TunedKernel]) -> String {
    let mut text = HEAD.to_owned();
    for kernel in kernels {
        let name = format!("MNEME_TUNED_{}", kernel.identifier.to_uppercase());
        for (number, launch) in kernel.launches.iter().enumerate() {
            let name = if number == 0 { name.clone() } else { format!("{name}_{}", number + 1) };
            text += &entry(&name, launch);
        }
    }
    text
}

fn entry(name: &str, launch: &TunedLaunch) -> String {
    let CompilerOptions { clang, nvcc, without } = options(&launch.configuration);
    let line = |text: &str| text.replace(['\n', '\r'], " ");
    let mut text =
        format!("\n# {}, {}: {}\n", line(&launch.kernel), line(&launch.architecture), line(&provenance(launch)));
    for what in without {
        text += &format!("# Compilers have no option for {}; mneme apply has it.\n", line(&what));
    }
    let list = |words: Vec<String>| words.iter().map(|word| format!(" {}", quoted(word))).collect::<String>();
    text += &format!("set({name}_CLANG{})\nset({name}_NVCC{})\n", list(clang), list(nvcc));
    text
}

/// A configuration as compiler options.
#[derive(Default)]
struct CompilerOptions {
    clang: Vec<String>,
    nvcc: Vec<String>,
    /// Settings without an option.
    without: Vec<String>,
}

/// The fields with an option of clang, and launch bounds, which are in the header of `mneme export --header`.
const EXPRESSED: [&str; 9] = [
    "passes", "fast_math", "maxnreg", "ptx_opt", "ptxas_options", "llvm_options", "set_launch_bounds", "max_threads",
    "min_blocks_per_sm",
];

fn options(tuned: &Configuration) -> CompilerOptions {
    let mut options = CompilerOptions::default();
    let mut both = |clang: &[&str], nvcc: &[&str]| {
        options.clang.extend(clang.iter().map(ToString::to_string));
        options.nvcc.extend(nvcc.iter().map(ToString::to_string));
    };
    if tuned.fast_math {
        both(&["-ffast-math"], &["--use_fast_math"]);
    }
    if tuned.maxnreg > 0 {
        let limit = format!("--maxrregcount={}", tuned.maxnreg);
        both(&["-Xcuda-ptxas", &limit], &[&limit]);
    }
    if let Some(level) = tuned.ptx_opt {
        let level = format!("-O{level}");
        both(&["-Xcuda-ptxas", &level], &["-Xptxas", &level]);
    }
    for word in tuned.ptxas_options.iter().flatten() {
        both(&["-Xcuda-ptxas", word], &["-Xptxas", word]);
    }
    for word in &tuned.llvm_options {
        both(&["-Xarch_device", "-mllvm", "-Xarch_device", word], &[]);
    }
    let level = tuned.passes.strip_prefix("default<O").and_then(|rest| rest.strip_suffix('>'));
    let mut plain = Configuration::default();
    match level.filter(|level| level.len() == 1) {
        Some(level) => {
            options.clang.insert(0, format!("-O{level}"));
            plain = plain.compiled_as(&CompileOptions { level: level.into(), ..CompileOptions::default() });
        }
        None => options.without.push(format!("the pipeline {}", tuned.passes)),
    }
    let changed = tuned.grounded().differences(&plain.grounded());
    let others = changed.filter(|field| field.effect.changes_code() && !EXPRESSED.contains(&field.name));
    options.without.extend(others.map(|field| field.name.to_owned()));
    if !tuned.llvm_options.is_empty() {
        options.without.push("llvm_options in nvcc".into());
    }
    options
}

/// Quotes an argument of a CMake command.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|it| it.is_ascii_alphanumeric() || "-_=.,+/:".contains(it));
    if is_plain {
        return word.to_owned();
    }
    let escaped: String =
        word.chars().flat_map(|it| if "\"\\$;".contains(it) { vec!['\\', it] } else { vec![it] }).collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use mneme_model::configuration::Specialize;
    use mneme_model::launch::Dim3;

    use super::super::grouped;
    use super::super::tests::launch;
    use super::*;

    #[test]
    fn fields_become_options_or_are_named() {
        let plain = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(64, 1, 1), 0);
        let tuned = Configuration {
            passes: "default<O2>".into(),
            fast_math: true,
            maxnreg: 64,
            ptx_opt: Some(2),
            llvm_options: vec!["-unroll-threshold=900".into()],
            ..plain.clone()
        };
        let other = Configuration {
            passes: "function(sroa)".into(),
            specialize: Specialize::All,
            specialize_dims: true,
            ..plain
        };
        let text = text(&grouped(vec![launch("step(int)", "sm_90", tuned), launch("step(int)", "sm_90", other)]));
        let clang = "set(MNEME_TUNED_STEP_CLANG -O2 -ffast-math -Xcuda-ptxas --maxrregcount=64 -Xcuda-ptxas -O2 \
                     -Xarch_device -mllvm -Xarch_device -unroll-threshold=900)\n";
        assert!(text.contains(clang), "{text}");
        assert!(text.contains("set(MNEME_TUNED_STEP_NVCC --use_fast_math --maxrregcount=64 -Xptxas -O2)\n"), "{text}");
        assert!(text.contains("set(MNEME_TUNED_STEP_2_CLANG)\n"), "{text}");
        for what in ["the pipeline function(sroa)", "specialize;", "specialize_dims;", "llvm_options in nvcc"] {
            assert!(text.contains(&format!("# Compilers have no option for {what}")), "{what}: {text}");
        }
    }

    #[test]
    fn words_are_quoted_for_cmake() {
        assert_eq!(quoted("-O2"), "-O2");
        assert_eq!(quoted("a b;${c}\"\\"), "\"a b\\;\\${c}\\\"\\\\\"");
    }
}
