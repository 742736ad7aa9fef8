//! A test of the runtime's declarations against NVIDIA's own headers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_abi::VendorFunction;
use mneme_abi::cuda::registration::FUNCTIONS as REGISTRATION;
use mneme_abi::cuda::runtime::FUNCTIONS;
use mneme_fixtures::headers::{Passed, expression, found, in_rust, types};

/// Functions called by code from nvcc.
fn is_of_nvcc(name: &str) -> bool {
    name.starts_with("__cuda")
}

/// Functions of `cuda_profiler_api.h`, which the pinned headers lack. They do not take arguments.
const OF_THE_PROFILER: [&str; 2] = ["cudaProfilerStart", "cudaProfilerStop"];

/// Functions with another meaning under the same name in CUDA 13, whose library has another name: `…_v2` became the
/// name.
const OTHERS_IN_13: [&str; 3] = ["cudaMemAdvise", "cudaMemPrefetchAsync", "cudaMemPrefetchAsync_ptsz"];

fn includes(toolkit: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").join(toolkit).join("include")
}

/// A function's result and arguments.
struct Signature {
    returns: String,
    arguments: Vec<String>,
}

/// A header's declarations, with every version and form in the library.
struct Header {
    functions: BTreeMap<String, Signature>,
    enumerations: BTreeSet<String>,
}

impl Header {
    fn read(toolkit: &str) -> Self {
        let preprocess = ["-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", "cuda_runtime_api.h"];
        let output = Command::new("cc").current_dir(includes(toolkit)).args(preprocess).output();
        let output = output.unwrap_or_else(|error| panic!("cc: {error}; run ./scripts/setup"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let declared = String::from_utf8(output.stdout).unwrap();
        // Functions called by nvcc's code are declared only for nvcc, with default arguments.
        let read = |name: &str| std::fs::read_to_string(includes(toolkit).join("crt").join(name)).unwrap();
        let for_nvcc = read("host_runtime.h") + &read("device_functions.h");
        let for_nvcc = expression(r"\s*=\s*\w+(\s*[,)])").replace_all(&for_nvcc, "$1").replace("CUDARTAPI", "");
        let function = r"\b(cudaError_t|const char\s*\*|struct cudaChannelFormatDesc|unsigned|char|void[\s*]*)\s+(_*cuda\w+)\s*\(([^;{)]*)\)\s*;";
        let function = expression(function);
        let signature = |found: regex_lite::Captures<'_>| {
            (found[2].to_owned(), Signature { returns: found[1].to_owned(), arguments: types(&found[3]) })
        };
        let functions = function.captures_iter(&declared).chain(function.captures_iter(&for_nvcc)).map(signature);
        let functions = functions.collect();
        Self { functions, enumerations: found(&declared, r"\benum\s+(?:__\w+\(\w+\)\s+)?(\w+)\s*\{") }
    }

    /// A function, or the function of which it is the form for the per-thread default stream; the header lacks forms
    /// that programs cannot call.
    fn function(&self, name: &str) -> Option<&Signature> {
        let base = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
        self.functions.get(name).or_else(|| self.functions.get(base))
    }

    fn passed(&self, text: &str) -> Passed {
        let words = text.replace("const ", "").replace("struct ", "").replace("enum ", "");
        match words.trim() {
            pointer if pointer.ends_with('*') => Passed::Pointer,
            "void" => Passed::Nothing,
            "cudaError_t" => Passed::Integer(4),
            "char" => Passed::Integer(1),
            enumeration if self.enumerations.contains(enumeration) => Passed::Integer(4),
            "size_t" | "unsigned long long" => Passed::Integer(8),
            "int" | "unsigned int" | "unsigned" => Passed::Integer(4),
            "float" => Passed::Float,
            "dim3" => Passed::Structure("Dimensions".into()),
            "cudaExtent" => Passed::Structure("Extent".into()),
            "cudaPitchedPtr" => Passed::Structure("PitchedPointer".into()),
            "cudaMemLocation" => Passed::Structure("CUmemLocation".into()),
            "cudaChannelFormatDesc" => Passed::Structure("ChannelFormat".into()),
            "cudaIpcMemHandle_t" => Passed::Structure("CUipcMemHandle".into()),
            handle if handle.ends_with("_t") => Passed::Handle,
            other => panic!("{other} is of no known kind"),
        }
    }
}

#[test]
fn arguments_and_results_are_those_of_the_headers() {
    for (toolkit, is_13) in [("cuda", false), ("nvcc", true)] {
        let header = Header::read(toolkit);
        assert!(header.functions.len() > 250, "{} functions of {toolkit}", header.functions.len());
        for function in FUNCTIONS.iter().chain(REGISTRATION) {
            let Some(Signature { returns, arguments: types }) = header.function(function.name) else {
                assert!(is_13 || OF_THE_PROFILER.contains(&function.name), "{} is in no header", function.name);
                continue;
            };
            let ours: Vec<Passed> = function.arguments.iter().map(|(_, argument)| in_rust(argument)).collect();
            let theirs: Vec<Passed> = types.iter().map(|text| header.passed(text)).collect();
            let agree = ours.len() == theirs.len()
                && ours.iter().zip(&theirs).all(|(ours, theirs)| ours.agrees_with(theirs))
                && in_rust(function.returns).agrees_with(&header.passed(returns));
            let is_another = is_13 && OTHERS_IN_13.contains(&function.name);
            assert_eq!(
                agree, !is_another,
                "{} of {toolkit}: {ours:?}, the header has {types:?}, {returns}",
                function.name
            );
        }
    }
}

/// CUPTI names each function with the version of its declaration.
#[test]
fn versions_are_those_of_cupti() {
    let path = includes("cuda").join("cupti_runtime_cbid.h");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let named = expression(r"_CBID_(\w+?)_v(\d{4,5})\s*=");
    let versions: BTreeMap<&str, i32> =
        named.captures_iter(&text).map(|found| (found.get(1).unwrap().as_str(), found[2].parse().unwrap())).collect();
    for VendorFunction { name, since, .. } in FUNCTIONS.iter().filter(|function| !is_of_nvcc(function.name)) {
        assert_eq!(versions.get(name), Some(since), "{name}");
    }
}

#[test]
fn names_are_unique() {
    let all = || FUNCTIONS.iter().chain(REGISTRATION).map(|function| function.name);
    assert_eq!(all().collect::<BTreeSet<&str>>().len(), all().count());
}
