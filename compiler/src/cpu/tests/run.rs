//! A runner of code objects for tests.
//!
//! It links an object with a small device (device.c) into a shared library.

use std::ffi::c_void;
use std::process::Command;

use libloading::{Library, Symbol};

pub struct Program {
    library: Library,
    table: super::CpuTable,
    _folder: tempfile::TempDir,
}

impl Program {
    pub fn link(object: &[u8]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("kernel.o"), object).unwrap();
        std::fs::write(path("device.c"), include_str!("device.c")).unwrap();
        let output = Command::new(concat!("clang-", env!("MNEME_LLVM_MAJOR")))
            .args(["-shared", "-fPIC", "-O1", "-fno-math-errno", "-w", "-o"])
            .arg(path("program.so"))
            .args([path("kernel.o"), path("device.c")])
            .args(["-lm", "-lpthread"])
            .output()
            .expect("clang (scripts/setup installs it)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the library's only constructors are the C library's.
        let library = unsafe { Library::new(path("program.so")).unwrap() };
        Program { library, table: super::table(object), _folder: folder }
    }

    /// The output of the kernels since the last call.
    pub fn printed(&self) -> String {
        type Take = unsafe extern "C" fn() -> *const std::ffi::c_char;
        // SAFETY: device.c returns a string that lives until the next call.
        unsafe {
            let take: Symbol<'_, Take> = self.library.get(b"test_printed").unwrap();
            std::ffi::CStr::from_ptr(take()).to_string_lossy().into_owned()
        }
    }

    /// Launches the only kernel whose name contains `name`.
    pub fn launch(&self, name: &str, blocks: u32, threads: u32, parameters: &[u8]) {
        let mut rows = self.table.kernels.iter().filter(|kernel| kernel.name.contains(name));
        let row = rows.next().unwrap_or_else(|| panic!("no kernel {name} in {:?}", self.table));
        assert!(rows.next().is_none(), "{name} is ambiguous");
        assert_eq!(row.parameter_bytes as usize, parameters.len(), "{name}");
        type KernelEntry = unsafe extern "C" fn(*const c_void);
        type Launch = unsafe extern "C" fn(KernelEntry, *const c_void, u32, u32, u32, u32);
        // SAFETY: both have the types that the contract and device.c give them. The buffer outlives the launch.
        unsafe {
            let launch: Symbol<'_, Launch> = self.library.get(b"test_launch").unwrap();
            let entry: Symbol<'_, KernelEntry> = self.library.get(row.entry.as_bytes()).unwrap();
            launch(*entry, parameters.as_ptr().cast(), blocks, threads, row.dynamic_shared_offset, row.warp_size);
        }
    }
}

/// A parameter buffer: each argument at its natural alignment.
#[derive(Default)]
pub struct Parameters(Vec<u8>);

impl Parameters {
    pub fn pointer<T>(self, pointer: *mut T) -> Self {
        self.bytes(&(pointer as u64).to_le_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn get(&self) -> &[u8] {
        &self.0
    }
}
