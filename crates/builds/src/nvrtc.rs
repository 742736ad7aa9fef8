//! Compiles CUDA source with NVRTC, on machines that have a CUDA toolkit and no clang.
//!
//! NVRTC is a library. `mneme-tune` loads it in a separate process, which
//! [`KernelSource`](crate::source::KernelSource) starts and can confine: `PROGRAM nvrtc LIBRARY FILE OPTION…` writes PTX to
//! its standard output. See [`run`].

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use libloading::Library;
use mneme_system::files::trust;
use mneme_system::toolkits;
use thiserror::Error;

/// The first argument of a program that compiles with NVRTC.
pub const COMMAND: &str = "nvrtc";

/// The exit status if NVRTC rejects the source, and if NVRTC itself does not work.
pub const REJECTED: i32 = 1;
const UNUSABLE: i32 = 2;

/// Folders of a toolkit or a system with libraries.
const LIBRARIES: [&str; 3] = ["lib64", "targets/x86_64-linux/lib", "lib"];
const SYSTEM: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"];

/// The newest NVRTC of the first toolkit that has one, otherwise of the system.
pub fn library() -> Option<PathBuf> {
    let of_toolkits = toolkits::toolkits().into_iter().flat_map(|root| LIBRARIES.map(|folder| root.join(folder)));
    of_toolkits
        .chain(SYSTEM.map(PathBuf::from))
        .find_map(|folder| newest(&folder))
        .filter(|it| trust::check(it).is_ok())
}

/// The library with the highest version in a folder: `libnvrtc.so.13`.
fn newest(folder: &Path) -> Option<PathBuf> {
    let version = |path: &Path| path.file_name()?.to_str()?.strip_prefix("libnvrtc.so.")?.parse::<u32>().ok();
    let files = folder.read_dir().ok()?.flatten().map(|entry| entry.path());
    files.filter_map(|path| Some((version(&path)?, path))).max().map(|(_, path)| path)
}

/// The options of NVRTC that mean what options of clang mean.
///
/// # Errors
/// NVRTC has no such option.
pub fn options<'a>(flags: impl IntoIterator<Item = &'a str>, arch: &str) -> Result<Vec<String>, NoOption> {
    let mut options = vec![format!("--gpu-architecture={}", arch.replacen("sm_", "compute_", 1)), "-lineinfo".into()];
    let mut flags = flags.into_iter();
    while let Some(flag) = flags.next() {
        let prefix = |options: &[&'static str]| options.iter().copied().find(|option| flag.starts_with(*option));
        if let Some(option) = prefix(&["-D", "-U", "-isystem", "-iquote", "-idirafter", "-include", "-I"]) {
            let value = match &flag[option.len()..] {
                "" => flags.next().unwrap_or_default(),
                value => value,
            };
            options.push(match option {
                "-D" | "-U" => format!("{option}{value}"),
                "-include" => format!("--pre-include={value}"),
                _ => format!("-I{value}"),
            });
            continue;
        }
        match flag {
            "-ffast-math" => options.push("--use_fast_math".into()),
            "-ffp-contract=off" => options.push("--fmad=false".into()),
            "-fgpu-flush-denormals-to-zero" | "-fcuda-flush-denormals-to-zero" => options.push("--ftz=true".into()),
            // The default of both compilers.
            "-ffp-contract=fast" | "-fno-fast-math" | "-O3" => {}
            _ if flag.starts_with("-std=") => options.push(flag.replacen("=gnu++", "=c++", 1)),
            // NVRTC always optimises, and finds a toolkit's headers by -I.
            _ if prefix(&["-W", "-g", "-O", "--cuda-path="]).is_some() => {}
            _ => return Err(NoOption(flag.into())),
        }
    }
    Ok(options)
}

#[derive(Debug, Error)]
#[error("NVRTC has no option like {0}; leave it out, or install a clang")]
pub struct NoOption(String);

/// The process that compiles: `arguments` are those after [`COMMAND`]. Writes PTX to standard output, or NVRTC's log to
/// standard error. Returns the exit status.
pub fn run(arguments: &[String]) -> i32 {
    let [library, file, options @ ..] = arguments else { return UNUSABLE };
    let (text, status) = match compile(library.as_ref(), file.as_ref(), options) {
        Ok(ptx) => return if std::io::stdout().write_all(&ptx).is_ok() { 0 } else { UNUSABLE },
        Err(Failure::Rejected(log)) => (log, REJECTED),
        Err(Failure::Unusable(reason)) => (reason, UNUSABLE),
    };
    let _ = std::io::stderr().write_all(text.as_bytes());
    status
}

enum Failure {
    Rejected(String),
    Unusable(String),
}

type Program = *mut c_void;

/// The functions of NVRTC, by their names in nvrtc.h. Each returns a status, 0 for success.
struct Nvrtc<'a> {
    create: libloading::Symbol<
        'a,
        unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int,
    >,
    compile: libloading::Symbol<'a, unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>,
    ptx: [Text<'a>; 2],
    log: [Text<'a>; 2],
    explain: libloading::Symbol<'a, unsafe extern "C" fn(c_int) -> *const c_char>,
}

/// A function that gives the size of a text (as `size_t`) or the text itself.
type Text<'a> = libloading::Symbol<'a, unsafe extern "C" fn(Program, *mut c_void) -> c_int>;

impl<'a> Nvrtc<'a> {
    fn of(library: &'a Library) -> Result<Self, libloading::Error> {
        // SAFETY: the types are those of nvrtc.h, the same since CUDA 8.
        unsafe {
            Ok(Self {
                create: library.get("nvrtcCreateProgram")?,
                compile: library.get("nvrtcCompileProgram")?,
                ptx: [library.get("nvrtcGetPTXSize")?, library.get("nvrtcGetPTX")?],
                log: [library.get("nvrtcGetProgramLogSize")?, library.get("nvrtcGetProgramLog")?],
                explain: library.get("nvrtcGetErrorString")?,
            })
        }
    }

    fn text(&self, program: Program, [size, content]: &[Text; 2]) -> Result<Vec<u8>, Failure> {
        let mut bytes = 0_usize;
        // SAFETY: the program is alive, and the result is a size_t.
        self.check(unsafe { size(program, (&raw mut bytes).cast()) })?;
        let mut text = vec![0_u8; bytes];
        // SAFETY: the text has as many bytes as the library asked for.
        self.check(unsafe { content(program, text.as_mut_ptr().cast()) })?;
        // It ends with a zero byte.
        text.pop();
        Ok(text)
    }

    fn check(&self, status: c_int) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library returns a static text for each number.
        let text = unsafe { CStr::from_ptr((self.explain)(status)) };
        Err(Failure::Unusable(format!("NVRTC failed: {}", text.to_string_lossy())))
    }
}

/// NVRTC's statuses for a source with errors, and for an option that it does not know.
const ERRORS: [c_int; 2] = [6, 5];

fn compile(library: &Path, file: &Path, options: &[String]) -> Result<Vec<u8>, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::Unusable(format!("{}: {error}", library.display()));
    let source = std::fs::read(file).map_err(|error| Failure::Unusable(format!("{}: {error}", file.display())))?;
    let source = CString::new(source).map_err(|_| Failure::Rejected("the source contains a zero byte".into()))?;
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or("kernel.cu");
    let text = |text: &str| CString::new(text).map_err(|_| Failure::Rejected("an option contains a zero byte".into()));
    let (name, options) = (text(name)?, options.iter().map(|it| text(it)).collect::<Result<Vec<_>, _>>()?);
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: NVRTC's initialisers have no requirements. The path is trusted like a program's.
    let loaded = unsafe { Library::new(library) }.map_err(|error| unusable(&error))?;
    let nvrtc = Nvrtc::of(&loaded).map_err(|error| unusable(&error))?;
    let mut program = null_mut();
    // SAFETY: both texts end with a zero byte and outlive the call, which copies them. The process ends soon, so the
    // program is never destroyed.
    nvrtc.check(unsafe { (nvrtc.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, null(), null()) })?;
    // SAFETY: the options are as many texts with a zero byte at their end.
    let status = unsafe { (nvrtc.compile)(program, pointers.len() as c_int, pointers.as_ptr()) };
    if ERRORS.contains(&status) {
        let log = nvrtc.text(program, &nvrtc.log)?;
        return Err(Failure::Rejected(String::from_utf8_lossy(&log).trim_end().to_owned()));
    }
    nvrtc.check(status)?;
    nvrtc.text(program, &nvrtc.ptx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_clang_have_their_equal_or_are_refused() {
        let of = |flags: &[&str]| options(flags.iter().copied(), "sm_90a");
        let found = of(&["-DTILE=8", "-I", "sdk", "-isystemx", "-std=gnu++17", "-ffast-math", "-O2", "-Wall"]).unwrap();
        let expected = [
            "--gpu-architecture=compute_90a", "-lineinfo", "-DTILE=8", "-Isdk", "-Ix", "-std=c++17", "--use_fast_math",
        ];
        assert_eq!(found, expected);
        assert!(of(&["-fassociative-math"]).is_err());
        assert!(of(&["-Xclang"]).is_err());
    }

    #[test]
    fn the_newest_library_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.12.9.86", "libnvrtc.alt.so.14"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(newest(folder.path()).unwrap().file_name().unwrap(), "libnvrtc.so.13");
        assert_eq!(newest(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_library_that_does_not_load_is_unusable() {
        assert_eq!(run(&[]), UNUSABLE);
        assert_eq!(run(&["/nowhere/libnvrtc.so.12".into(), "/dev/null".into()]), UNUSABLE);
    }
}
