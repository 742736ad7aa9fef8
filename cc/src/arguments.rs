//! A reader of clang's command line.
//!
//! It reads as much as mneme-cc needs: the sources, the outputs, and the arguments that shape the device code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::beside;

/// Options whose value is the next argument: those of clang's `Separate` and `JoinedOrSeparate` options that occur on
/// compile lines.
const SEPARATE: &[&str] = &[
    "-o", "-x", "-I", "-D", "-U", "-L", "-l", "-F", "-B", "-T", "-u", "-z", "-e", "-A", "-include", "-include-pch",
    "-imacros", "-isystem", "-iquote", "-idirafter", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-isysroot",
    "-imultilib", "-cxx-isystem", "-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xarch_host",
    "-Xarch_device", "-Xcuda-ptxas", "-Xcuda-fatbinary", "-Xoffload-linker", "-Xopenmp-target", "-Xanalyzer", "-mllvm",
    "-MF", "-MT", "-MQ", "-MJ", "-target", "--target", "-arch", "-framework", "--param", "--sysroot", "-gcc-toolchain",
    "-rpath", "-resource-dir", "-working-directory", "-serialize-diagnostics", "--serialize-diagnostics", "-dumpdir",
    "-stdlib++-isystem", "-ivfsoverlay", "-vfsoverlay", "--vfsoverlay", "-c-isystem", "-isystem-after", "-iframework",
    "-iwithsysroot", "-fdebug-compilation-dir", "-fmodule-implementation-of", "-ftrapv-handler", "-mmlir",
    "-mthread-model", "-specs", "-G", "-V", "-b", "-undefined", "--assert", "--config", "--define-macro",
    "--dyld-prefix", "--for-linker", "--force-link", "--imacros", "--include", "--include-directory",
    "--include-directory-after", "--include-prefix", "--include-with-prefix", "--include-with-prefix-after",
    "--include-with-prefix-before", "--library-directory", "--prefix", "--rtlib", "--specs", "--std", "--stdlib",
    "--undefine-macro",
];

/// Long names of options that this reader knows by their short ones. A value follows after a blank or `=`.
const LONG: [(&str, &str); 2] = [("--output", "-o"), ("--language", "-x")];

/// Options with which clang does not produce a host object or executable.
const OTHER_JOBS: &[&str] = &[
    "-E", "-S", "-M", "-MM", "-fsyntax-only", "-###", "--help", "-help", "--version", "-dumpversion", "-dumpmachine",
    "-cc1", "-cc1as", "--analyze", "-emit-llvm", "-emit-ast", "-emit-interface-stubs", "--precompile", "-rewrite-objc",
    "--migrate", "--cuda-host-only", "--offload-host-only", "--preprocess", "--assemble", "-fdriver-only",
    "-extract-api",
];
const OTHER_JOBS_PREFIXES: &[&str] = &["-print-", "--print-", "--help-", "-cuda-device-only"];

/// Options with which clang or hipcc compiles for the device only.
const DEVICE_ONLY: &[&str] = &["--cuda-device-only", "--offload-device-only", "--genco"];
/// Options with which it compiles for host and device again.
const HOST_AND_DEVICE: &[&str] = &["--cuda-compile-host-device", "--offload-host-device"];

/// Options without effect on the device's IR, or that concern the whole command and not one device compilation:
/// dependency files, linking, profiling, optimisation level, the choice of architectures.
const NOT_FOR_DEVICE: &[&str] = &[
    "-c", "--genco", "-v", "--verbose", "-time", "-pg", "--coverage", "-gsplit-dwarf", "-static", "-shared", "-pie",
    "-no-pie", "-rdynamic", "-s", "-r",
];
const NOT_FOR_DEVICE_PREFIXES: &[&str] = &[
    "-M", "-Wp,-M", "-Wl,", "-l", "-L", "-Xlinker", "-Xoffload-linker", "-O", "-save-temps", "--save-temps", "-ftime-",
    "-flto", "-fno-lto", "-foffload-lto", "-fprofile-", "-fcoverage-", "-fcs-profile-", "-ftest-coverage",
    "-fsave-optimization-record", "-fembed-bitcode", "-serialize-diagnostics", "--serialize-diagnostics", "-fuse-ld=",
    "-rpath", "-cuid=", "-fuse-cuid=", "--amdgpu-target=", "--hip-link", "--offload-link", "-use-staticlib",
    "-use-sharedlib", "--gpu-bundle-output", "--no-gpu-bundle-output", "--offload-arch=", "--no-offload-arch=",
    "--cuda-gpu-arch=", "--no-cuda-gpu-arch=", "-Xcuda-", "-Xassembler", "-gdwarf", "-fsplit-dwarf-inlining",
];

/// The job of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClangAction {
    /// Compile CUDA or HIP sources to objects.
    Compile,
    /// Compile such sources and link an executable or shared library in one command.
    CompileAndLink,
    /// Compile such sources for the device only.
    CompileForDevice,
    /// Any job without device code of CUDA or HIP sources.
    Other,
}

/// The language of a source with device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLanguage {
    Cuda,
    Hip,
}

impl SourceLanguage {
    /// The name of the language for `-x`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }
}

/// The program that reads the command line, which decides what counts as a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Clang,
    /// hipcc, which passes unknown options on to clang and treats CUDA sources as HIP, and on request C++ sources too.
    Hipcc {
        cxx: bool,
    },
}

/// A source with device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSource<'a> {
    pub path: &'a Path,
    pub language: SourceLanguage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Option(Vec<OsString>),
    /// An input, with the language from `-x` if there is one.
    Input {
        path: OsString,
        language: Option<OsString>,
    },
}

/// A clang command line with response files expanded.
#[derive(Debug)]
pub struct ClangCommandLine {
    items: Vec<Item>,
    dialect: Dialect,
}

impl ClangCommandLine {
    pub fn parse(arguments: &[OsString], dialect: Dialect) -> Self {
        let mut items = Vec::new();
        let mut language: Option<OsString> = None;
        let mut words = expand(arguments, 0).into_iter().flat_map(shortened).collect::<Vec<_>>().into_iter();
        let mut only_inputs = false;
        while let Some(word) = words.next() {
            let is_option = !only_inputs && word.len() > 1 && word.as_bytes()[0] == b'-';
            if !is_option {
                items.push(Item::Input { path: word, language: language.clone() });
            } else if word == "--" {
                only_inputs = true;
            } else if SEPARATE.iter().any(|option| word == *option) || word.as_bytes().starts_with(b"-Xarch_") {
                let value = words.next();
                if word == "-x" {
                    language = value.clone().filter(|value| value != "none");
                }
                items.push(Item::Option(std::iter::once(word).chain(value).collect()));
            } else {
                if let Some(value) = word.as_bytes().strip_prefix(b"-x") {
                    language = Some(OsStr::from_bytes(value).to_owned()).filter(|value| value != "none");
                }
                items.push(Item::Option(vec![word]));
            }
        }
        Self { items, dialect }
    }

    pub fn action(&self) -> ClangAction {
        let device_only = self.is_on(DEVICE_ONLY, HOST_AND_DEVICE);
        // PTX is code that programs can load; the assembly text of AMD GPUs is not.
        let is_ptx = |word: &str| device_only && !self.has_hip() && word == "-S";
        let other = self.options().any(|words| {
            let word = words[0].to_string_lossy();
            (OTHER_JOBS.contains(&&*word) && !is_ptx(&word))
                || OTHER_JOBS_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        });
        if other || self.sources().is_empty() {
            ClangAction::Other
        } else if device_only {
            ClangAction::CompileForDevice
        } else if self.options().any(|words| words[0] == "-c" || words[0] == "--compile") {
            ClangAction::Compile
        } else {
            ClangAction::CompileAndLink
        }
    }

    /// Whether HIP sources are among the inputs.
    pub fn has_hip(&self) -> bool {
        self.sources().iter().any(|source| source.language == SourceLanguage::Hip)
    }

    /// The sources with device code, in order. Standard input is left out, because it cannot be read twice.
    pub fn sources(&self) -> Vec<DeviceSource<'_>> {
        let language =
            |path, language| Some(DeviceSource { path: Path::new(path), language: self.language(path, language)? });
        self.inputs().filter_map(|(path, given)| language(path, given)).collect()
    }

    /// The language of an input, if that is one with device code.
    fn language(&self, path: &OsStr, given: Option<&OsStr>) -> Option<SourceLanguage> {
        if path == "-" {
            return None;
        }
        if let Some(given) = given {
            return [SourceLanguage::Cuda, SourceLanguage::Hip].into_iter().find(|language| given == language.name());
        }
        let extension = Path::new(path).extension()?.to_str()?;
        match (self.dialect, extension) {
            (_, "hip") => Some(SourceLanguage::Hip),
            (Dialect::Clang, "cu") => Some(SourceLanguage::Cuda),
            (Dialect::Hipcc { cxx: true }, "cu" | "cuh") => Some(SourceLanguage::Hip),
            (Dialect::Hipcc { cxx: true }, "cpp" | "cxx" | "cc" | "C") if !self.is_for_openmp() => {
                Some(SourceLanguage::Hip)
            }
            _ => None,
        }
    }

    fn is_for_openmp(&self) -> bool {
        self.options().any(|words| words[0].as_bytes().starts_with(b"-fopenmp-targets="))
    }

    /// The object to which `-c` compiles `source`.
    pub fn object_of(&self, source: &Path) -> PathBuf {
        self.output().unwrap_or_else(|| {
            let mut name = source.file_stem().unwrap_or_default().to_owned();
            name.push(".o");
            PathBuf::from(name)
        })
    }

    /// The value of `-o`.
    pub fn output(&self) -> Option<PathBuf> {
        self.options().filter_map(|words| value(words, "-o")).next_back().map(PathBuf::from)
    }

    pub fn relocatable(&self) -> bool {
        self.is_on(&["-fgpu-rdc", "-fcuda-rdc"], &["-fno-gpu-rdc", "-fno-cuda-rdc"])
    }

    /// Whether clang itself embeds IR into device code.
    pub fn embeds_bitcode(&self) -> bool {
        self.is_on(&["-fembed-bitcode=all", "-fembed-bitcode"], &["-fembed-bitcode=off"])
    }

    /// Whether the last of these options is a positive one.
    fn is_on(&self, positive: &[&str], negative: &[&str]) -> bool {
        let has = |options: &[&str], words: &[OsString]| options.iter().any(|option| words[0] == *option);
        let last = self.options().rfind(|words| has(positive, words) || has(negative, words));
        last.is_some_and(|words| has(positive, words))
    }

    /// The arguments that shape the device code of every source: without inputs, output, language, and options that
    /// would write further files.
    pub fn device_arguments(&self) -> Vec<OsString> {
        let fast = OsString::from("-ffast-math");
        // Levels do not affect the IR, except that `-Ofast` also means fast floating point. The last level counts.
        let mut levels = self.options().filter(|words| words[0].as_bytes().starts_with(b"-O"));
        let is_fast = levels.next_back().is_some_and(|words| words[0] == "-Ofast");
        is_fast.then_some(fast).into_iter().chain(self.plain_device_arguments()).collect()
    }

    fn plain_device_arguments(&self) -> impl Iterator<Item = OsString> {
        self.options()
            .filter(|words| {
                let word = words[0].to_string_lossy();
                let dropped = is_option(words, "-o") || is_option(words, "-x") || NOT_FOR_DEVICE.contains(&&*word);
                !dropped && !NOT_FOR_DEVICE_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
            })
            .flatten()
            .cloned()
    }

    /// The `-c` command for one of the sources of a compile-and-link command.
    pub fn compile_arguments(&self, source: DeviceSource<'_>, object: &Path) -> Vec<OsString> {
        let linking = |words: &[OsString]| {
            let word = words[0].to_string_lossy();
            ["-Wl,", "-l", "-L", "-Xlinker", "-z", "-T", "-fuse-ld=", "--ld-path="]
                .iter()
                .any(|prefix| word.starts_with(prefix))
                || ["-shared", "-static", "-pie", "-no-pie", "-rdynamic", "-s", "-r", "-u", "-e", "-rpath"]
                    .contains(&&*word)
        };
        // clang must not warn about options that only the link uses.
        let mut arguments = vec![OsString::from("--start-no-unused-arguments")];
        arguments.extend(
            self.options()
                .filter(|words| !linking(words) && !is_option(words, "-o") && !is_option(words, "-x"))
                .flatten()
                .cloned(),
        );
        if self.relocatable() || source.language == SourceLanguage::Hip {
            // Without an id, clang derives one from its arguments, among which is the object's name, which differs
            // every time. Most drivers generate another id after `-Xclang -cuid=…` unless they get `-cuid=…` too.
            let id = OsString::from(format!("-cuid={:016x}", self.identity(source.path)));
            arguments.extend([id.clone(), "-Xclang".into(), id]);
        }
        arguments.extend(self.files_beside(source.path));
        arguments.extend(["--end-no-unused-arguments", "-c", "-x", source.language.name()].map(OsString::from));
        arguments.extend([source.path.as_os_str().to_owned(), "-o".into(), object.as_os_str().to_owned()]);
        arguments
    }

    /// Options that name the other files that clang writes when it compiles one of the sources of a compile-and-link
    /// command.
    fn files_beside(&self, source: &Path) -> Vec<OsString> {
        let output = self.output();
        let has = |prefixes: &[&str]| {
            self.options().any(|words| prefixes.iter().any(|prefix| words[0].as_bytes().starts_with(prefix.as_bytes())))
        };
        let mut arguments = Vec::new();
        if has(&["-MD", "-MMD", "--write-dependencies", "--write-user-dependencies", "-Wp,-MD", "-Wp,-MMD"]) {
            let (file, target) = (has(&["-MF", "-Wp,-M"]), has(&["-MT", "-MQ"]));
            arguments.extend(beside::dependency_arguments(output.as_deref(), source, "-MQ", file, target));
        }
        // For split debugging information and coverage, whose file names are in the code.
        if !has(&["-dumpdir"]) {
            arguments.extend(["-dumpdir".into(), beside::prefix(output.as_deref())]);
        }
        arguments
    }

    /// A hash that distinguishes the device code of `source` from that of other sources of the program.
    pub fn identity(&self, source: &Path) -> u64 {
        let path = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
        let start = mneme_model::hash::Hash64::new().part(path.as_os_str().as_bytes());
        self.device_arguments().iter().fold(start, |hash, word| hash.part(word.as_bytes())).finish()
    }

    /// The link of a compile-and-link command. `objects` replace the sources with device code, in order.
    pub fn link_arguments(&self, objects: &[PathBuf]) -> Vec<OsString> {
        let mut objects = objects.iter();
        let mut arguments = Vec::new();
        let mut current: Option<OsString> = None;
        let compiles =
            self.inputs().any(|(path, language)| self.language(path, language).is_none() && !is_linked(path));
        for item in &self.items {
            match item {
                Item::Option(words) if is_option(words, "-x") => {}
                // These files have been written, and a link without compilations would remove them.
                Item::Option(words) if !compiles && OF_COMPILATIONS.iter().any(|option| words[0] == *option) => {}
                Item::Option(words) => arguments.extend(words.iter().cloned()),
                Item::Input { path, language } => {
                    let is_source = self.language(path, language.as_deref()).is_some();
                    let object = is_source.then(|| objects.next()).flatten();
                    let (path, language) = match object {
                        Some(object) => (object.as_os_str().to_owned(), None),
                        None => (path.clone(), language.clone()),
                    };
                    if language != current {
                        arguments.extend([OsString::from("-x"), language.clone().unwrap_or_else(|| "none".into())]);
                        current = language;
                    }
                    arguments.push(path);
                }
            }
        }
        arguments
    }

    fn options(&self) -> impl DoubleEndedIterator<Item = &Vec<OsString>> {
        self.items.iter().filter_map(|item| match item {
            Item::Option(words) => Some(words),
            Item::Input { .. } => None,
        })
    }

    fn inputs(&self) -> impl Iterator<Item = (&OsStr, Option<&OsStr>)> {
        self.items.iter().filter_map(|item| match item {
            Item::Input { path, language } => Some((path.as_os_str(), language.as_deref())),
            Item::Option(_) => None,
        })
    }
}

/// Options that name a file about compilations, which every command rewrites.
const OF_COMPILATIONS: [&str; 3] = ["-MJ", "-serialize-diagnostics", "--serialize-diagnostics"];

/// Whether an input is for the linker, judged by its name.
pub fn is_linked(path: &OsStr) -> bool {
    let extension = Path::new(path).extension().and_then(OsStr::to_str).unwrap_or_default();
    ["o", "a", "so", "lo", "obj"].contains(&extension) || path.to_string_lossy().contains(".so.")
}

/// Whether `words` are `option` and its value, joined or separate.
fn is_option(words: &[OsString], option: &str) -> bool {
    words[0].as_bytes().starts_with(option.as_bytes()) && value(words, option).is_some()
}

/// The value of `option`, joined or separate. Of clang's options that begin with `-o` or `-x`, only these two take a
/// joined value on compile lines with device code.
fn value(words: &[OsString], option: &str) -> Option<OsString> {
    if words[0] == option {
        return words.get(1).cloned();
    }
    words[0].as_bytes().strip_prefix(option.as_bytes()).map(|value| OsStr::from_bytes(value).to_owned())
}

/// Splits a long option with a joined value into its short name and the value.
fn shortened(word: OsString) -> Vec<OsString> {
    let Some((long, short)) = LONG.iter().find(|(long, _)| word.as_bytes().starts_with(long.as_bytes())) else {
        return vec![word];
    };
    match &word.as_bytes()[long.len()..] {
        [] => vec![short.into()],
        [b'=', value @ ..] => vec![short.into(), OsStr::from_bytes(value).to_owned()],
        _ => vec![word],
    }
}

/// Replaces `@file` by the arguments in the file, as clang does.
fn expand(arguments: &[OsString], depth: usize) -> Vec<OsString> {
    /// Response files may name others. clang also limits the depth, against cycles.
    const DEEPEST: usize = 16;
    let mut words = Vec::new();
    for argument in arguments {
        let content = argument
            .as_bytes()
            .strip_prefix(b"@")
            .filter(|_| depth < DEEPEST)
            .and_then(|path| std::fs::read(OsStr::from_bytes(path)).ok());
        match content {
            Some(content) => words.extend(expand(&tokens(&content), depth + 1)),
            None => words.push(argument.clone()),
        }
    }
    words
}

/// Splits a response file by GNU rules: white space separates, quotes group, a backslash escapes.
pub fn tokens(content: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = content.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (_, b'\\') if quote != Some(b'\'') => word.get_or_insert_default().extend(bytes.next()),
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), byte) => word.get_or_insert_default().push(byte),
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, byte) if byte.is_ascii_whitespace() => words.extend(word.take().map(OsString::from_vec)),
            (None, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> ClangCommandLine {
        read(line, Dialect::Clang)
    }

    fn read(line: &str, dialect: Dialect) -> ClangCommandLine {
        ClangCommandLine::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>(), dialect)
    }

    fn paths(line: &ClangCommandLine) -> String {
        line.sources().iter().map(|source| source.path.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    fn cuda(path: &str) -> DeviceSource<'_> {
        DeviceSource { path: Path::new(path), language: SourceLanguage::Cuda }
    }

    fn joined(arguments: Vec<OsString>) -> String {
        arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn actions_and_sources() {
        use ClangAction::*;
        for (line, action, sources) in [
            ("-c a.cu", Compile, "a.cu"),
            ("-x cuda -c a.cpp -o a.o", Compile, "a.cpp"),
            ("-xcuda a.cpp b.cpp", CompileAndLink, "a.cpp b.cpp"),
            ("-x cuda a.cpp -x none b.cpp c.cu", CompileAndLink, "a.cpp c.cu"),
            ("-x c++ a.cu -c", Other, ""),
            ("a.cu main.o -o app -lcudart", CompileAndLink, "a.cu"),
            ("-include b.cu -c a.cpp", Other, ""),
            ("-o a.cu -c a.cpp", Other, ""),
            ("a.o b.o -o app", Other, ""),
            ("-E a.cu", Other, "a.cu"),
            ("-S a.cu", Other, "a.cu"),
            ("-MM a.cu", Other, "a.cu"),
            ("-MD -MF a.d -c a.cu", Compile, "a.cu"),
            ("--version", Other, ""),
            ("-print-prog-name=ld a.cu", Other, "a.cu"),
            ("--cuda-device-only -c a.cu", CompileForDevice, "a.cu"),
            ("--offload-device-only -S a.cu", CompileForDevice, "a.cu"),
            ("--offload-device-only -S a.hip", Other, "a.hip"),
            ("--offload-device-only -emit-llvm -c a.hip", Other, "a.hip"),
            ("--cuda-device-only --offload-host-device a.cu", CompileAndLink, "a.cu"),
            ("-x cuda -c -", Other, ""),
            ("-c -- a.cu", Compile, "a.cu"),
            ("-x hip -c a.cpp", Compile, "a.cpp"),
            ("a.hip b.cu main.cpp -o app", CompileAndLink, "a.hip b.cu"),
            ("-x hip --genco a.cpp", CompileForDevice, "a.cpp"),
            ("--hip-link a.o b.o -o app", Other, ""),
            ("-Xarch_gfx90a -DX -xhip a.cpp -c", Compile, "a.cpp"),
        ] {
            let parsed = parse(line);
            assert_eq!(parsed.action(), action, "{line}");
            assert_eq!(paths(&parsed), sources, "{line}");
        }
        assert!(parse("-x hip -c a.cpp").has_hip() && parse("a.hip").has_hip() && !parse("a.cu").has_hip());
    }

    #[test]
    fn hipcc_takes_other_sources_for_hip() {
        let (all, few) = (Dialect::Hipcc { cxx: true }, Dialect::Hipcc { cxx: false });
        for (line, dialect, sources) in [
            ("-c a.cpp", all, "a.cpp"),
            ("a.cc b.cxx c.C d.cu e.hip f.c g.o -o app", all, "a.cc b.cxx c.C d.cu e.hip"),
            ("a.cpp b.cu c.hip", few, "c.hip"),
            ("-fopenmp-targets=amdgcn a.cpp b.hip", all, "b.hip"),
            ("-x c++ a.cpp", all, ""),
            ("-x hip a.txt", all, "a.txt"),
        ] {
            let parsed = read(line, dialect);
            assert_eq!(paths(&parsed), sources, "{line}");
            assert!(parsed.sources().iter().all(|source| source.language == SourceLanguage::Hip));
        }
        let line = read("--amdgpu-target=gfx90a -O2 --rocm-path=/usr a.cpp -o app", all);
        assert_eq!(joined(line.device_arguments()), "--rocm-path=/usr");
        let arguments = joined(line.compile_arguments(line.sources()[0], Path::new("/t/0.o")));
        assert!(
            arguments.starts_with("--start-no-unused-arguments --amdgpu-target=gfx90a -O2 --rocm-path=/usr -cuid="),
            "{arguments}"
        );
        assert!(arguments.ends_with(" -c -x hip a.cpp -o /t/0.o"), "{arguments}");
    }

    #[test]
    fn objects_are_where_clang_puts_them() {
        for (line, source, object) in [
            ("-c dir/a.cu", "dir/a.cu", "a.o"),
            ("-c a.cu -o out/b.obj", "a.cu", "out/b.obj"),
            ("-c a.cu -oout.o", "a.cu", "out.o"),
            ("-c a.b.cu", "a.b.cu", "a.b.o"),
        ] {
            assert_eq!(parse(line).object_of(Path::new(source)), Path::new(object), "{line}");
        }
    }

    #[test]
    fn the_device_compile_keeps_what_shapes_code() {
        let line = "-DA=1 -D B -Iinc -I inc2 -O0 -g -MD -MF x.d -MT x.o -std=c++17 --cuda-path=/cuda --offload-arch=sm_80 -Wl,--x -lcudart -L lib \
                    -fgpu-rdc -ffast-math -Xclang -flag -c a.cu -o a.o -save-temps -flto=thin -v";
        let expected = "-DA=1 -D B -Iinc -I inc2 -g -std=c++17 --cuda-path=/cuda -fgpu-rdc -ffast-math -Xclang -flag";
        let parsed = parse(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(joined(parsed.device_arguments()), expected);
        assert_eq!(joined(parse("-Ofast -DA a.cu").device_arguments()), "-ffast-math -DA");
        assert_eq!(joined(parse("-Ofast -O2 -DA a.cu").device_arguments()), "-DA");
        assert!(parsed.relocatable());
        assert!(!parse("-fgpu-rdc -fno-gpu-rdc a.cu").relocatable());
    }

    #[test]
    fn a_link_keeps_the_order_of_inputs_and_their_languages() {
        let objects = [PathBuf::from("/t/0.o"), PathBuf::from("/t/1.o")];
        for (line, expected) in [
            ("a.cu b.cu -o app -lcudart", "/t/0.o /t/1.o -o app -lcudart"),
            ("-x cuda a.cc -lx b.cc -O2", "/t/0.o -lx /t/1.o -O2"),
            ("x.o a.cu -x c++ m.txt -x none b.cu y.a", "x.o /t/0.o -x c++ m.txt -x none /t/1.o y.a"),
            ("a.cu b.cu x.o -MJ j.json -o app", "/t/0.o /t/1.o x.o -o app"),
            ("a.cu b.cu m.c -MJ j.json -o app", "/t/0.o /t/1.o m.c -MJ j.json -o app"),
        ] {
            assert_eq!(joined(parse(line).link_arguments(&objects)), expected, "{line}");
        }
        let compile =
            parse("a.cu -O2 -o app -lcudart -Wl,-rpath,x -L lib").compile_arguments(cuda("a.cu"), Path::new("/t/0.o"));
        let quiet = |words: &str| format!("--start-no-unused-arguments {words} --end-no-unused-arguments");
        assert_eq!(joined(compile), format!("{} -c -x cuda a.cu -o /t/0.o", quiet("-O2 -dumpdir app-")));
        for (line, expected) in [
            ("a.cu -MMD -MP -o out/app", "-MMD -MP -MF out/app.d -MQ out/app -dumpdir out/app-"),
            ("a.cu -MD", "-MD -MF a.d -MQ a.o -dumpdir a-"),
            ("a.cu -MD -MF x.d -MT y -o app", "-MD -MF x.d -MT y -dumpdir app-"),
            ("a.cu -dumpdir z -o app", "-dumpdir z"),
            ("--language cuda a.cc -z now -Tt.ld --output=app --define-macro X", "--define-macro X -dumpdir app-"),
        ] {
            let arguments = joined(parse(line).compile_arguments(cuda("a.cu"), Path::new("/t/0.o")));
            assert_eq!(arguments, format!("{} -c -x cuda a.cu -o /t/0.o", quiet(expected)), "{line}");
        }
    }

    #[test]
    fn ids_of_relocatable_units_depend_on_source_and_options_only() {
        let id = |line: &str, source: &str, object: &str| {
            let arguments = parse(line).compile_arguments(cuda(source), Path::new(object));
            arguments
                .iter()
                .map(|argument| argument.to_string_lossy().into_owned())
                .find(|argument| argument.starts_with("-cuid="))
                .unwrap()
        };
        let first = id("-fgpu-rdc a.cu b.cu -o x", "a.cu", "/t/0.o");
        assert_eq!(first, id("-fgpu-rdc a.cu b.cu -o y", "a.cu", "/other/0.o"));
        assert_ne!(first, id("-fgpu-rdc a.cu b.cu -o x", "b.cu", "/t/0.o"));
        assert_ne!(first, id("-fgpu-rdc -DX a.cu b.cu -o x", "a.cu", "/t/0.o"));
    }

    #[test]
    fn response_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("args");
        std::fs::write(&path, "-c 'a b.cu'\n-DX=\\\"q\\\" \"-I some dir\"").unwrap();
        let mut argument = OsString::from("@");
        argument.push(&path);
        let parsed = ClangCommandLine::parse(&[argument], Dialect::Clang);
        assert_eq!(parsed.sources(), [cuda("a b.cu")]);
        assert_eq!(joined(parsed.device_arguments()), "-DX=\"q\" -I some dir");
        assert_eq!(ClangCommandLine::parse(&["@missing".into()], Dialect::Clang).action(), ClangAction::Other);
    }
}
