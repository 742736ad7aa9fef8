//! The CUDA driver and runtime APIs: their functions, types and result codes.

pub mod driver;
pub mod profiler_structures;
pub mod registration;
pub mod runtime;
pub mod runtime_structures;
pub mod status;
pub mod structures;
pub mod sys;
pub mod types;

pub use crate::VendorFunction;

/// How a function treats stream 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    Legacy,
    PerThread,
}

/// Splits `cuMemcpyHtoD_v2_ptds` into `cuMemcpyHtoD`, the name for `cuGetProcAddress`, and its treatment of stream 0.
pub fn split_name(name: &str) -> (&str, DefaultStream) {
    let (name, stream) = match name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")) {
        Some(name) => (name, DefaultStream::PerThread),
        None => (name, DefaultStream::Legacy),
    };
    let base = name.rsplit_once("_v").filter(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit()));
    (base.map_or(name, |(base, _)| base), stream)
}

/// From 12.0 on, the first is a separate function; the second is a macro of `cuda.h`.
const RENAMED: (&str, &str) = ("cuGraphInstantiate", "cuGraphInstantiateWithFlags");

/// The names by which programs may request the function `name` from `cuGetProcAddress`, in any version.
pub fn names_asked_for(name: &str) -> impl Iterator<Item = &str> {
    let base = Some(split_name(name).0).filter(|base| *base != name);
    [Some(name), base, (name == RENAMED.1).then_some(RENAMED.0)].into_iter().flatten()
}

/// The first version in which a base name may mean the function `name`, current since `since`, in `cuGetProcAddress`.
pub fn since_as(name: &str, since: i32, base: &str) -> Option<i32> {
    // A runtime asks for many names, most of which are not even similar.
    let is_meant = || name.starts_with(base) && split_name(name).0 == base;
    if (base, name) == RENAMED { Some(12000) } else { is_meant().then_some(since) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_base_and_stream_semantics() {
        assert_eq!(split_name("cuMemcpyHtoD_v2_ptds"), ("cuMemcpyHtoD", DefaultStream::PerThread));
        assert_eq!(split_name("cuLaunchKernel_ptsz"), ("cuLaunchKernel", DefaultStream::PerThread));
        assert_eq!(split_name("cuMemAlloc_v2"), ("cuMemAlloc", DefaultStream::Legacy));
        assert_eq!(split_name("cuLaunchKernelEx"), ("cuLaunchKernelEx", DefaultStream::Legacy));
    }

    #[test]
    fn a_function_is_asked_for_by_its_base_name_and_its_own() {
        let asked = |name| names_asked_for(name).collect::<Vec<_>>();
        assert_eq!(asked("cuMemAlloc_v2"), ["cuMemAlloc_v2", "cuMemAlloc"]);
        assert_eq!(asked("cuInit"), ["cuInit"]);
        assert_eq!(asked("cuGraphInstantiateWithFlags"), ["cuGraphInstantiateWithFlags", "cuGraphInstantiate"]);
        assert_eq!(since_as("cuGraphInstantiateWithFlags", 11040, "cuGraphInstantiate"), Some(12000));
        assert_eq!(since_as("cuMemAlloc_v2", 3020, "cuMemAlloc"), Some(3020));
        assert_eq!(since_as("cuMemAlloc_v2", 3020, "cuMem"), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = driver::FUNCTIONS.iter().map(|function| function.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), driver::FUNCTIONS.len());
    }
}
