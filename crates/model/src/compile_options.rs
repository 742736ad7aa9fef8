//! The options with which an application's device code was compiled.
//!
//! They are the options that its IR does not contain, and that a replay needs to produce the same code. Denormals, fast
//! math, features and the architecture are attributes of the IR itself.

use serde::{Deserialize, Serialize};

/// The options for one translation unit and architecture, as the compiler reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompileOptions {
    /// Optimisation level of the compiler: "0" to "3", "s" or "z".
    pub level: String,
    /// `-ffp-contract` of the compiler, "fast", "on", "off" or "fast-honor-pragmas"; "" if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub contract: String,
    /// Options of LLVM's own command line (`-mllvm`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub llvm_options: Vec<String>,
    /// Optimisation level of the assembler, 0 to 3.
    pub ptx_opt: u8,
    /// Other options of ptxas: its limit of registers, and the arguments of `-Xcuda-ptxas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ptxas_options: Vec<String>,
}

/// Options of ptxas for its target and output; the value is the next word, or follows `=`.
const PLACES: [&str; 4] = ["--gpu-name", "-arch", "--output-file", "-o"];
/// Options without effect on the code.
const WITHOUT_EFFECT: [&str; 11] = [
    "-m64", "-v", "--verbose", "-w", "--disable-warnings", "-lineinfo", "--generate-line-info", "-c", "--compile-only",
    "-warn-spills", "--warn-on-spills",
];
/// Options of ptxas for code to debug.
const FOR_DEBUGGERS: [&str; 5] =
    ["-g", "--device-debug", "--dont-merge-basicblocks", "--return-at-end", "-sp-bounds-check"];

impl CompileOptions {
    /// The options on clang's own command line for device code (`clang -cc1 …`), with the assembler's defaults.
    pub fn of_clang(words: &[String]) -> Self {
        let last = |prefix: &str| words.iter().rev().find_map(|word| word.strip_prefix(prefix));
        let level = match last("-O").unwrap_or("0") {
            "" | "g" => "1",
            "fast" | "4" => "3",
            level => level,
        };
        let is_hip = words.windows(2).any(|pair| pair[0] == "-x" && pair[1].starts_with("hip"));
        let llvm_options = words
            .iter()
            .zip(words.iter().skip(1))
            .filter(|(word, _)| *word == "-mllvm")
            .map(|(_, option)| option.clone());
        Self {
            level: level.to_owned(),
            // The defaults of CUDA and HIP.
            contract: last("-ffp-contract=").unwrap_or(if is_hip { "fast-honor-pragmas" } else { "fast" }).to_owned(),
            llvm_options: llvm_options.filter(|option| !is_usual(option)).collect(),
            ptx_opt: 3,
            ptxas_options: Vec::new(),
        }
    }

    /// Adds the options on a ptxas command line without its program name.
    #[must_use]
    pub fn with_ptxas(mut self, words: &[String]) -> Self {
        (self.ptx_opt, self.ptxas_options) = (3, Vec::new());
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let level = word.strip_prefix("--opt-level").or_else(|| word.strip_prefix("-O"));
            if let Some(level) = level {
                let level = match level.trim_start_matches('=') {
                    "" => words.next().unwrap_or_default(),
                    level => level,
                };
                self.ptx_opt = level.parse().unwrap_or(self.ptx_opt).min(3);
            } else if PLACES.contains(&word) {
                words.next();
            } else if limits_registers(word) {
                let value = word.split_once('=').map(|(_, value)| value).or_else(|| words.next()).unwrap_or_default();
                self.ptxas_options.retain(|option| !limits_registers(option));
                self.ptxas_options.push(format!("{}={value}", LIMITS[0]));
            } else if word.starts_with('-')
                && !WITHOUT_EFFECT.contains(&word)
                && !PLACES.iter().any(|name| is_joined(word, name))
            {
                self.ptxas_options.push(word.to_owned());
            } else if !word.starts_with('-') && !word.ends_with(".s") && !word.ends_with(".ptx") {
                // The value of the previous option.
                self.ptxas_options.push(word.to_owned());
            }
        }
        self
    }

    /// The pass pipeline of the level.
    pub fn pipeline(&self) -> String {
        format!("default<O{}>", self.level)
    }

    /// The compiler's code-generation level for this level, 0 to 3.
    pub fn codegen_opt(&self) -> u8 {
        match self.level.as_str() {
            "s" | "z" => 2,
            level => level.parse().unwrap_or(3).min(3),
        }
    }

    /// Whether multiplications and additions may be fused anywhere; `None` if unknown.
    pub fn fuses(&self) -> Option<bool> {
        (!self.contract.is_empty()).then(|| self.contract == "fast")
    }

    /// These options, with fused or separate multiplications and additions.
    #[must_use]
    pub fn fusing(mut self, fuses: bool) -> Self {
        self.contract = if fuses { "fast" } else { "off" }.to_owned();
        self.ptxas_options.push(format!("--fmad={fuses}"));
        self
    }

    /// Whether the program was compiled from its recorded IR; programs of nvcc were not.
    pub fn is_of_the_ir(&self) -> bool {
        !self.contract.is_empty()
    }

    /// The options of ptxas without those for debugging.
    pub fn without_debugging(&self) -> Vec<String> {
        self.ptxas_options.iter().filter(|option| !FOR_DEBUGGERS.contains(&option.as_str())).cloned().collect()
    }

    /// Whether the assembler optimises fully: level 3, without options for debugging.
    pub fn assembles_optimised(&self) -> bool {
        self.ptx_opt == 3 && self.without_debugging().len() == self.ptxas_options.len()
    }
}

/// Options that clang passes to LLVM for every device compilation.
const USUAL: [&str; 2] = ["-enable-memcpyopt-without-libcalls", "-amdgpu-internalize-symbols"];
/// An option that clang both passes to LLVM and writes to the IR: the version of AMD's code objects.
const IN_IR: &str = "--amdhsa-code-object-version=";

fn is_usual(option: &str) -> bool {
    USUAL.contains(&option) || option.starts_with(IN_IR)
}

/// The option of ptxas that limits registers, in its two spellings.
const LIMITS: [&str; 2] = ["-maxrregcount", "--maxrregcount"];

/// Whether an argument of ptxas limits registers.
pub fn limits_registers(word: &str) -> bool {
    LIMITS.contains(&word.split('=').next().unwrap_or_default())
}

fn is_joined(word: &str, name: &str) -> bool {
    word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn clang_says_level_contraction_and_options_of_llvm() {
        let of = |line: &str| CompileOptions::of_clang(&words(line));
        let found = of(
            "-cc1 -mllvm -enable-memcpyopt-without-libcalls -O2 -mllvm -nvptx-prec-sqrtf32=0 -ffp-contract=on -x cuda a.cu",
        );
        assert_eq!(
            (found.level.as_str(), found.contract.as_str(), found.llvm_options),
            ("2", "on", words("-nvptx-prec-sqrtf32=0"))
        );
        for (line, pipeline, codegen, fuses) in [
            ("-cc1", "default<O0>", 0, true),
            ("-cc1 -O", "default<O1>", 1, true),
            ("-cc1 -O0 -Ofast -ffp-contract=fast", "default<O3>", 3, true),
            ("-cc1 -Os -ffp-contract=off", "default<Os>", 2, false),
            ("-cc1 -Oz -ffp-contract=fast-honor-pragmas", "default<Oz>", 2, false),
            ("-cc1 -O3 -mllvm -amdgpu-internalize-symbols -x hip a.hip", "default<O3>", 3, false),
            ("-cc1 -O3 -ffp-contract=fast -x hip a.hip", "default<O3>", 3, true),
            ("-cc1 -O1 -ffp-contract=off -mllvm --amdhsa-code-object-version=5 -x hip a.hip", "default<O1>", 1, false),
        ] {
            let found = of(line);
            assert_eq!(
                (&*found.pipeline(), found.codegen_opt(), found.fuses()),
                (pipeline, codegen, Some(fuses)),
                "{line}"
            );
            assert!(found.llvm_options.is_empty(), "{line}");
        }
        assert_eq!(CompileOptions::default().fuses(), None);
    }

    #[test]
    fn ptxas_is_told_what_it_was_told() {
        let of = |line: &str| {
            let found = CompileOptions::default().with_ptxas(&words(line));
            (found.ptx_opt, found.ptxas_options.join(" "))
        };
        for (line, level, rest) in [
            ("-m64 -O2 --gpu-name sm_90 --output-file /tmp/a.o /tmp/a-1.s", 2, ""),
            ("-m64 -O0 -lineinfo --gpu-name sm_90 --output-file a.o a.s -c", 0, ""),
            (
                "-O3 --gpu-name sm_90 -o a.o a.s -maxrregcount=64 --fmad=false --maxrregcount 32",
                3,
                "--fmad=false -maxrregcount=32",
            ),
            ("-O3 a.ptx -O1 --def-load-cache cg", 1, "--def-load-cache cg"),
            ("-arch=sm_90 -o=a.o --opt-level 0 a.ptx", 0, ""),
            ("-m64 -g --dont-merge-basicblocks --return-at-end a.s", 3, "-g --dont-merge-basicblocks --return-at-end"),
        ] {
            assert_eq!(of(line), (level, rest.to_owned()), "{line}");
        }
        let debug = CompileOptions::default().with_ptxas(&words("-g --return-at-end -maxrregcount=8 a.s"));
        assert_eq!((debug.without_debugging(), debug.assembles_optimised()), (words("-maxrregcount=8"), false));
    }

    #[test]
    fn what_is_written_reads_back_and_a_part_of_it_too() {
        let full = CompileOptions::of_clang(&words("-O1 -mllvm -x")).with_ptxas(&words("-O1 -maxrregcount=32"));
        assert_eq!(serde_json::from_str::<CompileOptions>(&serde_json::to_string(&full).unwrap()).unwrap(), full);
        assert_eq!(serde_json::from_str::<CompileOptions>("{\"level\": \"2\"}").unwrap().codegen_opt(), 2);
    }
}
