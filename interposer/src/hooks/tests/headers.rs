//! Tests the declarations and the table against NVIDIA's headers.
//!
//! Every function of the driver is hooked, or a documented reason exists why not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_abi::cuda::driver::FUNCTIONS;
use mneme_abi::cuda::{VendorFunction, split_name};
use mneme_fixtures::headers::{Passed, expression, found, in_rust, types};

use super::unhooked;
use crate::hooks::CUDA;
use crate::hooks::proc_address::{NEWEST, variant};

const UNHOOKED: &str = include_str!("unhooked.txt");

/// The declarations of a header.
struct Header {
    /// `CUDA_VERSION`
    version: i32,
    /// Argument types of each exported symbol, in every version and form of the library.
    functions: BTreeMap<String, Vec<String>>,
    /// Versions of each base name and form (`cuLaunchKernel`, `_ptsz`) that a program can request from
    /// `cuGetProcAddress`.
    since: BTreeMap<(String, String), BTreeSet<i32>>,
    handles: BTreeSet<String>,
    enumerations: BTreeSet<String>,
}

impl Header {
    fn read(folder: &Path) -> Self {
        let text = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}; run ./scripts/setup", path.display()))
        };
        // With this definition the header declares the exports of the library, not the functions that a program of one
        // version calls.
        let preprocess = ["-E", "-P", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", "cuda.h"];
        let output = Command::new("cc").current_dir(folder).args(preprocess).output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let declared = String::from_utf8(output.stdout).unwrap();
        let source = text("cuda.h");
        let comments = expression(r"(?s)/\*.*?\*/");
        let typedefs = comments.replace_all(&text("cudaTypedefs.h"), "").into_owned();

        let function = expression(r"CUresult\s+(cu\w+)\s*\(([^;{]*?)\)\s*;");
        let functions =
            function.captures_iter(&declared).map(|found| (found[1].to_owned(), types(&found[2]))).collect();
        let mut since = BTreeMap::<_, BTreeSet<i32>>::new();
        for found in expression(r"\bPFN_(cu\w+?)_v(\d{4,5})(_ptds|_ptsz)?\s*\)\s*\(").captures_iter(&typedefs) {
            let form = found.get(3).map_or("", |form| form.as_str());
            since.entry((found[1].to_owned(), form.to_owned())).or_default().insert(found[2].parse().unwrap());
        }
        let mut handles = found(&declared, r"typedef\s+struct\s+\w+\s*\*\s*(\w+)\s*;");
        handles.extend(found(&declared, r"typedef\s+\w+\s*\(\s*\*\s*(\w+)\s*\)\s*\("));
        let mut enumerations = found(&declared, r"typedef\s+enum\s+\w+\s*\{[^}]*\}\s*(\w+)\s*;");
        for alias in expression(r"typedef\s+(\w+)\s+(\w+)\s*;").captures_iter(&declared) {
            if enumerations.contains(&alias[1]) {
                enumerations.insert(alias[2].to_owned());
            }
        }
        Self {
            version: expression(r"#define CUDA_VERSION (\d+)").captures(&source).unwrap()[1].parse().unwrap(),
            functions,
            since,
            handles,
            enumerations,
        }
    }
}

/// The headers of 12.9, of 13.0 and the newest, as scripts/setup downloads them.
fn headers() -> Vec<Header> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.deps");
    ["cuda/include", "nvcc/include", "headers"].iter().map(|folder| Header::read(&root.join(folder))).collect()
}

fn in_c(text: &str, header: &Header) -> Passed {
    match text.trim_start_matches("const ").trim() {
        pointer if pointer.ends_with('*') => Passed::Pointer,
        handle if header.handles.contains(handle) => Passed::Handle,
        enumeration if header.enumerations.contains(enumeration) => Passed::Integer(4),
        "size_t"
        | "unsigned long long"
        | "CUdeviceptr"
        | "cuuint64_t"
        | "CUmemGenericAllocationHandle"
        | "CUtexObject"
        | "CUsurfObject" => Passed::Integer(8),
        "int" | "unsigned int" | "cuuint32_t" | "CUdevice" => Passed::Integer(4),
        "unsigned short" => Passed::Integer(2),
        "unsigned char" => Passed::Integer(1),
        "float" => Passed::Float,
        other => Passed::Structure(other.to_owned()),
    }
}

/// The suffix of the form for the per-thread default stream, and the flag that requests it.
fn form_of(symbol: &str) -> (&'static str, u64) {
    let form = ["_ptds", "_ptsz"].into_iter().find(|form| symbol.ends_with(form));
    form.map_or(("", 0), |form| (form, 2))
}

/// Whether an entry of the list covers a symbol.
fn means(entry: &str, symbol: &'static str) -> bool {
    let (base, _) = split_name(symbol);
    let without_form = symbol.trim_end_matches("_ptds").trim_end_matches("_ptsz");
    match entry.strip_prefix('=') {
        Some(exact) => without_form == exact,
        None => base == entry,
    }
}

#[test]
fn every_function_of_the_driver_is_hooked_or_need_not_be() {
    let headers = headers();
    let symbols: BTreeSet<&'static str> =
        headers.iter().flat_map(|header| header.functions.keys()).map(|symbol| &*symbol.clone().leak()).collect();
    assert!(symbols.len() > 600, "{} functions", symbols.len());
    let hooked = |symbol: &str| CUDA.iter().any(|hook| hook.name.to_str() == Ok(symbol));
    let listed = |symbol: &'static str| unhooked(UNHOOKED).filter(|entry| means(entry, symbol)).count();
    let wrong = |is_wrong: fn(bool, usize) -> bool| -> Vec<&str> {
        symbols.iter().copied().filter(|symbol| is_wrong(hooked(symbol), listed(symbol))).collect()
    };
    let none = [""; 0];
    assert_eq!(wrong(|hooked, listed| !hooked && listed == 0), none, "neither hooked nor in the list of unhooked.txt");
    assert_eq!(wrong(|hooked, listed| hooked && listed > 0), none, "hooked, and in the list of unhooked.txt");
    assert_eq!(wrong(|_, listed| listed > 1), none, "twice in the list of unhooked.txt");
    let is_in_none = |entry: &&str| !symbols.iter().any(|symbol| means(entry, symbol));
    let unknown = unhooked(UNHOOKED).filter(is_in_none);
    assert_eq!(unknown.collect::<Vec<_>>(), none, "in the list of unhooked.txt, and in no header");
    let unknown = CUDA.iter().map(|hook| hook.name.to_str().unwrap()).filter(|name| !symbols.contains(name));
    assert_eq!(unknown.collect::<Vec<_>>(), none, "hooked, and in no header");
}

#[test]
fn arguments_are_those_of_the_headers() {
    for header in headers() {
        for function in FUNCTIONS {
            let Some(types) = header.functions.get(function.name) else { continue };
            let ours: Vec<Passed> = function.arguments.iter().map(|(_, argument)| in_rust(argument)).collect();
            let theirs: Vec<Passed> = types.iter().map(|text| in_c(text, &header)).collect();
            let agree =
                ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(ours, theirs)| ours.agrees_with(theirs));
            assert!(agree, "{} of {}: {ours:?}, the header has {types:?}: {theirs:?}", function.name, header.version);
        }
    }
}

#[test]
fn versions_are_those_of_the_headers() {
    let headers = headers();
    let mut since = BTreeMap::<&(String, String), BTreeSet<i32>>::new();
    headers
        .iter()
        .flat_map(|header| &header.since)
        .for_each(|(name, versions)| since.entry(name).or_default().extend(versions));
    let symbols: BTreeSet<&String> = headers.iter().flat_map(|header| header.functions.keys()).collect();
    // cudaProfiler.h declares these two; it is not among the pinned headers.
    let of_others = |function: &&VendorFunction| ["cuProfilerStart", "cuProfilerStop"].contains(&function.name);
    for VendorFunction { name, since: declared, .. } in FUNCTIONS.iter().filter(|function| !of_others(function)) {
        assert!(symbols.iter().any(|symbol| symbol == name), "{name} is in no header");
        let (form, _) = form_of(name);
        let (base, _) = split_name(name);
        let key = (base.to_owned(), form.to_owned());
        let versions = since.get(&key).unwrap_or_else(|| panic!("{name} has no version in any cudaTypedefs.h"));
        assert!(versions.contains(declared), "{name}: {declared} is not one of {versions:?}");
        // If the numbers of symbols and versions are equal, they match in order.
        let variants: Vec<String> = (1..9)
            .map(|number| if number == 1 { format!("{base}{form}") } else { format!("{base}_v{number}{form}") })
            .filter(|variant| symbols.contains(variant))
            .collect();
        if variants.len() == versions.len() {
            let expected = versions.iter().zip(&variants).find(|(_, variant)| *variant == *name).unwrap().0;
            assert_eq!(declared, expected, "{name} among {variants:?} of {versions:?}");
        }
    }
}

/// For each version, the newest variant in the headers is the hooked one.
#[test]
fn base_names_mean_the_newest_variant_of_a_version() {
    let headers = headers();
    assert_eq!(headers.iter().map(|header| header.version).max(), Some(NEWEST));
    for header in &headers {
        for hook in CUDA {
            let name = hook.name.to_str().unwrap();
            let (form, flags) = form_of(name);
            let base = hook.base_name();
            let newest = header.since.get(&(base.to_owned(), form.to_owned())).and_then(|since| since.iter().max());
            // It is a macro of the header since 12.0.
            if let Some(newest) = newest.filter(|_| base != "cuGraphInstantiate") {
                let meant = variant(base, header.version, flags).map(|hook| hook.since);
                assert_eq!(meant, Some(*newest), "{base} in {} with flags {flags}", header.version);
            }
        }
    }
}
