//! The hooked functions of CUDA's driver and of HIP, and their purposes.
//!
//! Two lists (`table.rs`) and the declarations of `mneme_abi` generate the exported functions, the map for `dlsym` and
//! `cuGetProcAddress`, the typed calls of the vendor's functions, and docs/reference/hooks.md. The functions with which
//! HIP programs register their code return no status, so they are separate ([`registration`]).

pub mod dlsym;
mod exported;
mod proc_address;
pub mod registration;
mod unwatched;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use mneme_abi::cuda::{DefaultStream, split_name};

use crate::driver::{Slot, Status};
use crate::process::family::Family;
use crate::process::reentrancy;

pub use exported::{CUDA, HIP};

/// One hooked function.
pub struct Hook {
    pub family: Family,
    /// The symbol in the vendor's library, e.g. `cuMemAlloc_v2`.
    pub name: &'static CStr,
    /// The CUDA version from which the base name means this variant, as `cuGetProcAddress` counts (12000 = 12.0). For
    /// HIP, the version of the symbol (402 is `hip_4.2`).
    pub since: i32,
    /// The recorder's work in the hook, for docs/reference/hooks.md.
    pub purpose: &'static str,
    /// Tests that cover it, each as a source file and a test, e.g. `tests/tests/e2e/coverage.rs: pools`.
    pub tests: &'static [&'static str],
    pub(crate) address: fn() -> *mut c_void,
    pub(crate) real: &'static Slot,
}

impl Hook {
    pub fn address(&self) -> *mut c_void {
        (self.address)()
    }

    /// The version from which on `cuGetProcAddress` may mean this function by a base name.
    pub fn since_as(&self, base: &str) -> Option<i32> {
        mneme_abi::cuda::since_as(self.name.to_str().unwrap_or_default(), self.since, base)
    }

    /// The name without its version and stream suffixes, as programs request it from `cuGetProcAddress`.
    pub fn base_name(&self) -> &'static str {
        split_name(self.name.to_str().unwrap_or_default()).0
    }

    pub fn default_stream(&self) -> DefaultStream {
        split_name(self.name.to_str().unwrap_or_default()).1
    }
}

/// Every hook, by interface.
pub fn all() -> impl Iterator<Item = &'static Hook> {
    CUDA.iter().chain(HIP)
}

/// The hook of a name.
pub fn by_name(name: &CStr) -> Option<*mut c_void> {
    static MAP: OnceLock<HashMap<&'static CStr, registration::FunctionAddress>> = OnceLock::new();
    let map = MAP.get_or_init(|| {
        all().map(|hook| (hook.name, hook.address)).chain(registration::FUNCTIONS.iter().copied()).collect()
    });
    map.get(name).map(|address| address())
}

/// The table as Markdown, the contents of docs/reference/hooks.md.
pub fn documentation() -> String {
    use std::fmt::Write;
    let mut text = String::from(
        "# Hooked functions\n\nGenerated from the lists in `interposer/src/table.rs`; a test compares them. Besides the \
         tests named here, `every_hook_passes_its_call_on` (`interposer/src/hooks/mod.rs`) calls every \
         function of both interfaces, CUDA's and HIP's.\n",
    );
    let columns = "| function | since | what the recorder does | tested by |\n| --- | --- | --- | --- |\n";
    let mut table = |title: &str, hooks: &[Hook], version: fn(i32) -> String| {
        let _ = write!(text, "\n{title}\n\n{columns}");
        for hook in hooks {
            let (name, since) = (hook.name.to_string_lossy(), version(hook.since));
            let tests: Vec<_> = hook.tests.iter().map(|test| format!("`{test}`")).collect();
            let _ = writeln!(text, "| `{name}` | {since} | {} | {} |", hook.purpose, tests.join(", "));
        }
    };
    table(
        "## CUDA's driver\n\n`since` is the CUDA version from which `cuGetProcAddress` means this variant.",
        CUDA,
        |since| format!("{}.{}", since / 1000, since % 1000 / 10),
    );
    table(
        "## HIP\n\n`since` is the version of the symbol in libamdhip64. The recorder records the interface of a process's \
         first hooked call, and passes calls of the other on. The recorder also hooks `__hipRegisterFatBinary`, \
         `__hipUnregisterFatBinary`, `__hipRegisterFunction`, `__hipRegisterVar` and `__hipRegisterManagedVar`, to \
         find a kernel's code and variables.",
        HIP,
        |since| format!("{}.{}", since / 100, since % 100),
    );
    text
}

/// The body of every exported function, except for launches that are only counted. Runs the handler once per call and
/// thread, otherwise the vendor's function (`vendors`, past other tools, one of which may have made the call). If the
/// handler panics, the application still gets the vendor's result. In a process that uses the other interface, the call
/// is passed on.
#[inline]
pub(crate) fn enter(
    family: Family,
    real: impl Fn() -> Status,
    vendors: impl Fn() -> Status,
    handler: impl FnOnce(&dyn Fn() -> Status) -> Status,
) -> Status {
    let result = Cell::new(None);
    let call = || {
        let status = real();
        result.set(Some(status));
        status
    };
    let handled = || {
        if !family.is_recorded() {
            return real();
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler(&call)));
        outcome.unwrap_or_else(|_| result.get().unwrap_or_else(&real))
    };
    reentrancy::once(handled, vendors)
}

#[cfg(test)]
mod tests {
    mod headers;
    mod hip_headers;

    use super::*;

    /// The names in a list of functions that are not hooked.
    fn unhooked(list: &'static str) -> impl Iterator<Item = &'static str> {
        list.lines().filter(|line| line.starts_with(' ')).flat_map(str::split_whitespace)
    }

    #[test]
    fn names_are_unique_and_found() {
        let mut names: Vec<_> = all().map(|hook| hook.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().count());
        for hook in all() {
            assert_eq!(Family::of_symbol(hook.name), hook.family, "{:?}", hook.name);
            assert_eq!(by_name(hook.name), Some(hook.address()));
        }
        assert_eq!(by_name(c"cuNoSuchFunction"), None);
    }

    #[test]
    fn the_documentation_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/hooks.md");
        if std::env::var_os("MNEME_UPDATE_DOCS").is_some() {
            std::fs::write(path, documentation()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == documentation(),
            "docs/reference/hooks.md is stale: run `MNEME_UPDATE_DOCS=1 cargo test -p mneme-rec`"
        );
    }

    #[test]
    fn the_tests_that_are_named_exist() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for hook in all() {
            for test in hook.tests {
                let (file, name) = test.split_once(": ").unwrap_or_else(|| panic!("{test}: file, colon, name"));
                let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                // A function, or an entry in the list of a macro that makes functions.
                let listed = |line: &str| line.split([',', ' ']).any(|word| word == name);
                assert!(
                    text.contains(&format!("fn {name}(")) || text.lines().any(listed),
                    "{test}: this test does not exist"
                );
            }
        }
    }

    /// Calls every function with zeros as arguments, before a vendor that refuses everything. On other architectures
    /// large structures are passed by pointer, and zero is not a valid one.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_hook_passes_its_call_on() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static CALLS: AtomicU32 = AtomicU32::new(0);
        const REFUSED: Status = Status(999);
        extern "C" fn refuse() -> Status {
            CALLS.fetch_add(1, Ordering::Relaxed);
            REFUSED
        }
        type Any = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> Status;
        // The functions of the process's interface have handlers; those of the other do not.
        let hip_comes_first = std::env::var_os(HIP_FIRST).is_some();
        let order = if hip_comes_first { [HIP, CUDA] } else { [CUDA, HIP] };
        for hook in order.into_iter().flatten() {
            hook.real.learn(refuse as *mut c_void);
            let before = CALLS.load(Ordering::Relaxed);
            // SAFETY: no function of the table has more arguments; the calling convention of this architecture ignores
            // surplus ones. Zeros are null pointers, which every handler treats as the vendor does.
            let status = unsafe {
                let function = std::mem::transmute::<*mut c_void, Any>(hook.address());
                function(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
            };
            assert_eq!(status, REFUSED, "{:?}", hook.name);
            // Handlers call others too: who owns the memory, what the handle is.
            assert!(CALLS.load(Ordering::Relaxed) > before, "{:?}", hook.name);
        }
    }

    #[cfg(target_arch = "x86_64")]
    const HIP_FIRST: &str = "MNEME_TEST_HIP_FIRST";

    /// The same in a separate process that uses HIP, because the interface is decided once.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_hook_of_hip_passes_its_call_on() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hooks::tests::every_hook_passes_its_call_on"])
            .env(HIP_FIRST, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    fn a_panicking_handler_gives_the_vendors_result_and_calls_it_once() {
        let calls = Cell::new(0);
        let real = || {
            calls.set(calls.get() + 1);
            Status(7)
        };
        assert_eq!(
            enter(Family::Cuda, real, real, |call| {
                call();
                panic!("expected by the test")
            }),
            Status(7)
        );
        assert_eq!(calls.get(), 1);
        assert_eq!(enter(Family::Cuda, real, real, |_| panic!("expected by the test")), Status(7));
        assert_eq!(calls.get(), 2);
    }
}
