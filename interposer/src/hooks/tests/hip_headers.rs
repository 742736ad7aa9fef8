//! Tests HIP's declarations and hooks against the headers of HIP, if they are installed.
//!
//! Every function in them, and every declared one, is hooked, or a documented reason exists why not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use mneme_abi::hip::roctracer::FUNCTIONS as ROCTRACER;
use mneme_abi::hip::runtime::FUNCTIONS;
use mneme_fixtures::headers::{Passed, expression, found, in_rust, types};

use super::unhooked;
use crate::hooks::{HIP, registration};

const UNHOOKED: &str = include_str!("unhooked_hip.txt");
/// Names in the list that the headers of some versions (of 5.2, 6.4 and 7.2) lack.
const OF_SOME_VERSIONS: &[&str] = &[
    "hipCreateSurfaceObject",
    "hipDestroySurfaceObject",
    "hipDeviceGetTexture1DLinearMaxWidth",
    "hipExternalMemoryGetMappedMipmappedArray",
    "hipGLGetDevices",
    "hipGraphAddExternalSemaphoresSignalNode",
    "hipGraphAddExternalSemaphoresWaitNode",
    "hipGraphExecExternalSemaphoresSignalNodeSetParams",
    "hipGraphExecExternalSemaphoresWaitNodeSetParams",
    "hipGraphExternalSemaphoresSignalNodeGetParams",
    "hipGraphExternalSemaphoresSignalNodeSetParams",
    "hipGraphExternalSemaphoresWaitNodeGetParams",
    "hipGraphExternalSemaphoresWaitNodeSetParams",
    "hipGraphReleaseUserObject",
    "hipGraphRetainUserObject",
    "hipGraphicsGLRegisterBuffer",
    "hipGraphicsGLRegisterImage",
    "hipRegisterActivityCallback",
    "hipRegisterApiCallback",
    "hipRemoveActivityCallback",
    "hipRemoveApiCallback",
    "hipTexRefGetArray",
    "hipTexRefGetBorderColor",
    "hipUserObjectCreate",
    "hipUserObjectRelease",
    "hipUserObjectRetain",
];

/// The declarations of the headers.
struct Header {
    /// The return type of each function, and the types of its arguments.
    functions: BTreeMap<String, (String, Vec<String>)>,
    handles: BTreeSet<String>,
    enumerations: BTreeSet<String>,
}

impl Header {
    fn read() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("headers.c");
        std::fs::write(&source, "#include <hip/hip_runtime_api.h>\n#include <hip/hip_ext.h>\n").unwrap();
        let mut compiler = Command::new("cc");
        // Only this folder: next to it may be headers of another C library.
        if let Some(rocm) = std::env::var_os("MNEME_TEST_ROCM") {
            std::os::unix::fs::symlink(Path::new(&rocm).join("include/hip"), folder.path().join("hip")).unwrap();
            compiler.arg("-I").arg(folder.path());
        }
        let output = compiler.args(["-E", "-P", "-D__HIP_PLATFORM_AMD__"]).arg(&source).output().ok()?;
        if !output.status.success() {
            mneme_fixtures::skip("no headers of HIP on this machine");
            return None;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let default = expression(r"\s*=\s*\w+");
        let function = expression(r"\b(hipError_t|void|int|const char\s*\*)\s*\b(_*hip\w+)\s*\(([^;{)]*)\)[^;{]*;");
        let arguments = |text: &str| types(&default.replace_all(text, ""));
        let functions = function
            .captures_iter(&text)
            .map(|found| (found[2].to_owned(), (found[1].to_owned(), arguments(&found[3]))));
        let functions = functions.collect();
        let mut handles = found(&text, r"typedef\s+(?:const\s+)?struct\s+\w+\s*\*\s*(\w+)\s*;");
        handles.extend(found(&text, r"typedef\s+\w+\s*\*\s*(\w+)\s*;"));
        handles.extend(found(&text, r"typedef\s+\w+\s*\(\s*\*\s*(\w+)\s*\)\s*\("));
        let enumerations = found(&text, r"typedef\s+enum\s+\w*\s*\{[^}]*\}\s*(\w+)\s*;");
        Some(Self { functions, handles, enumerations })
    }

    fn passed(&self, text: &str) -> Passed {
        let text = text.replace("const ", "");
        match text.trim() {
            enumeration if enumeration.starts_with("enum ") => Passed::Integer(4),
            pointer if pointer.ends_with('*') => Passed::Pointer,
            "void" => Passed::Nothing,
            handle if self.handles.contains(handle) => Passed::Handle,
            enumeration if self.enumerations.contains(enumeration) => Passed::Integer(4),
            "size_t" | "unsigned long long" | "uint64_t" => Passed::Integer(8),
            "int" | "unsigned" | "unsigned int" | "uint32_t" | "hipDevice_t" | "hipError_t" => Passed::Integer(4),
            "unsigned short" => Passed::Integer(2),
            "unsigned char" => Passed::Integer(1),
            "float" => Passed::Float,
            "dim3" => Passed::Structure("Dimensions".into()),
            "hipExtent" | "struct hipExtent" => Passed::Structure("Extent".into()),
            "hipPitchedPtr" => Passed::Structure("PitchedPointer".into()),
            "hipMemLocation" => Passed::Structure("CUmemLocation".into()),
            "hipIpcMemHandle_t" => Passed::Structure("CUipcMemHandle".into()),
            other => Passed::Structure(other.to_owned()),
        }
    }
}

/// Whether an entry of the list covers a symbol, including its form for the per-thread default stream.
fn means(entry: &str, symbol: &str) -> bool {
    symbol.trim_end_matches("_spt") == entry
}

#[test]
fn every_function_of_hip_is_hooked_or_need_not_be() {
    let header = Header::read();
    let declared = FUNCTIONS.iter().map(|function| function.name.to_owned());
    let of_headers = header.iter().flat_map(|header| header.functions.keys().cloned());
    let symbols: BTreeSet<String> = declared.chain(of_headers).collect();
    assert!(header.is_none() || symbols.len() > 450, "{} functions", symbols.len());
    let registered = registration::FUNCTIONS.iter().map(|(name, _)| *name);
    let hooks: BTreeSet<&str> =
        HIP.iter().map(|hook| hook.name).chain(registered).map(|name| name.to_str().unwrap()).collect();
    let hooked = |symbol: &str| hooks.contains(symbol);
    let listed = |symbol: &str| unhooked(UNHOOKED).filter(|entry| means(entry, symbol)).count();
    let wrong = |is_wrong: fn(bool, usize) -> bool| -> Vec<&str> {
        symbols.iter().map(String::as_str).filter(|symbol| is_wrong(hooked(symbol), listed(symbol))).collect()
    };
    let none = [""; 0];
    assert_eq!(wrong(|hooked, listed| !hooked && listed == 0), none, "neither hooked nor in the list");
    assert_eq!(wrong(|hooked, listed| hooked && listed > 0), none, "hooked, and in the list");
    assert_eq!(wrong(|_, listed| listed > 1), none, "twice in the list");
    if header.is_some() {
        let is_in_none =
            |entry: &&str| !OF_SOME_VERSIONS.contains(entry) && !symbols.iter().any(|symbol| means(entry, symbol));
        let unknown = unhooked(UNHOOKED).filter(is_in_none);
        assert_eq!(unknown.collect::<Vec<_>>(), none, "in the list, and neither declared nor in a header");
    }
}

#[test]
fn arguments_of_hips_functions_are_those_of_the_headers() {
    let Some(header) = Header::read() else { return };
    let mut compared = 0;
    for function in FUNCTIONS.iter().chain(ROCTRACER) {
        let Some((returns, types)) = header.functions.get(function.name) else { continue };
        let ours: Vec<Passed> = function.arguments.iter().map(|(_, argument)| in_rust(argument)).collect();
        let theirs: Vec<Passed> = types.iter().map(|text| header.passed(text)).collect();
        // HIP has pointers for the driver's addresses; both have eight bytes.
        let is_word = |one: &Passed| matches!(one, Passed::Pointer | Passed::Handle | Passed::Integer(8));
        let agrees = |ours: &Passed, theirs: &Passed| ours.agrees_with(theirs) || (is_word(ours) && is_word(theirs));
        let agree = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(ours, theirs)| agrees(ours, theirs));
        assert!(agree, "{}: {ours:?}, the header has {types:?}: {theirs:?}", function.name);
        let (ours, theirs) = (in_rust(function.returns), header.passed(returns));
        assert!(ours.agrees_with(&theirs), "{} returns {ours:?}, in the header {returns}", function.name);
        compared += 1;
    }
    assert!(compared > 250, "{compared} functions");
}
