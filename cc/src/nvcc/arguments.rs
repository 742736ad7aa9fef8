//! A reader of nvcc's command line, which translates for clang what shapes the device code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::arguments::{is_linked, tokens};
use crate::beside;

/// Options with a value after a blank or `=`: long and short name. Of the short names, [`JOINED`] also take it joined.
const WITH_VALUE: &[(&str, &str)] = &[
    ("output-file", "o"),
    ("pre-include", "include"),
    ("library", "l"),
    ("define-macro", "D"),
    ("undefine-macro", "U"),
    ("include-path", "I"),
    ("system-include", "isystem"),
    ("library-path", "L"),
    ("output-directory", "odir"),
    ("dependency-output", "MF"),
    ("dependency-target-name", "MT"),
    ("compiler-bindir", "ccbin"),
    ("archiver-binary", "arbin"),
    ("cudart", "cudart"),
    ("cudadevrt", "cudadevrt"),
    ("libdevice-directory", "ldir"),
    ("target-directory", "target-dir"),
    ("optimize", "O"),
    ("ftemplate-backtrace-limit", "ftemplate-backtrace-limit"),
    ("ftemplate-depth", "ftemplate-depth"),
    ("x", "x"),
    ("std", "std"),
    ("machine", "m"),
    ("compiler-options", "Xcompiler"),
    ("linker-options", "Xlinker"),
    ("archive-options", "Xarchive"),
    ("ptxas-options", "Xptxas"),
    ("nvlink-options", "Xnvlink"),
    ("fatbin-options", "Xfatbinary"),
    ("cudafe-options", "Xcudafe"),
    ("gpu-architecture", "arch"),
    ("gpu-code", "code"),
    ("generate-code", "gencode"),
    ("relocatable-device-code", "rdc"),
    ("entries", "e"),
    ("maxrregcount", "maxrregcount"),
    ("ftz", "ftz"),
    ("prec-div", "prec-div"),
    ("prec-sqrt", "prec-sqrt"),
    ("fmad", "fmad"),
    ("default-stream", "default-stream"),
    ("keep-dir", "keep-dir"),
    ("run-args", "run-args"),
    ("input-drive-prefix", "idp"),
    ("dependency-drive-prefix", "ddp"),
    ("drive-prefix", "dp"),
    ("threads", "t"),
    ("split-compile", "split-compile"),
    ("time", "time"),
    ("options-file", "optf"),
    ("Werror", "Werror"),
    ("diag-error", "diag-error"),
    ("diag-suppress", "diag-suppress"),
    ("diag-warn", "diag-warn"),
    ("brief-diagnostics", "brief-diag"),
    ("compress-mode", "compress-mode"),
    ("device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility"),
    ("device-stack-protector", "device-stack-protector"),
    ("dopt", "dopt"),
    ("fdevice-time-trace", "fdevice-time-trace"),
    ("frandom-seed", "frandom-seed"),
    ("host-linker-script", "hls"),
    ("jump-table-density", "jtd"),
    ("Ofast-compile", "Ofc"),
    ("opt-info", "opt-info"),
    ("sanitize", "sanitize"),
    ("split-compile-extended", "split-compile-extended"),
    ("static-global-template-stub", "static-global-template-stub"),
];
const JOINED: &[&str] = &["o", "l", "D", "U", "I", "L", "O", "x", "m", "t", "isystem"];

/// Long names of flags that have short ones.
const FLAGS: &[(&str, &str)] = &[
    ("compile", "c"),
    ("device-c", "dc"),
    ("device-w", "dw"),
    ("device-link", "dlink"),
    ("shared", "shared"),
    ("run", "run"),
    ("extended-lambda", "extended-lambda"),
    ("expt-extended-lambda", "extended-lambda"),
    ("expt-relaxed-constexpr", "expt-relaxed-constexpr"),
    ("use_fast_math", "use_fast_math"),
    ("generate-line-info", "lineinfo"),
    ("device-debug", "G"),
    ("generate-dependencies-with-compile", "MD"),
    ("generate-nonsystem-dependencies-with-compile", "MMD"),
];

/// Options with which nvcc makes something other than objects and programs.
const OTHER_JOBS: &[&str] = &[
    "E", "preprocess", "M", "generate-dependencies", "MM", "generate-nonsystem-dependencies", "cuda", "ltoir",
    "optix-ir", "dlink", "lib", "run", "dryrun", "help", "h", "version", "V", "list-gpu-code", "list-gpu-arch", "dlto",
    "clean-targets", "clean",
];
/// Those of them with which nvcc still makes code from sources.
const MAKE_CODE: &[&str] = &["lib", "run", "dlto"];

/// Options for code for the device only, which programs load.
const DEVICE_ONLY: &[&str] = &["ptx", "cubin", "fatbin"];

#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// Short name, value, and the original words.
    Option(String, Option<OsString>, Vec<OsString>),
    Input(OsString),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvccAction {
    Compile,
    CompileAndLink,
    /// Code for the device only, to which IR cannot be added.
    CompileForDevice,
    Other,
}

#[derive(Debug)]
pub struct NvccCommandLine {
    items: Vec<Item>,
}

impl NvccCommandLine {
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut items = Vec::new();
        let mut words = expand(arguments, 0).into_iter();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str().and_then(|text| text.strip_prefix('-')).filter(|text| !text.is_empty())
            else {
                items.push(Item::Input(word));
                continue;
            };
            let text = text.strip_prefix('-').unwrap_or(text).to_owned();
            let (name, joined) =
                text.split_once('=').map_or((text.as_str(), None), |(name, value)| (name, Some(OsString::from(value))));
            let short = |table: &[(&str, &str)]| {
                table.iter().find(|(long, short)| *long == name || *short == name).map(|(_, short)| (*short).to_owned())
            };
            if let Some(short) = short(WITH_VALUE) {
                let (value, whole) = match joined {
                    Some(value) => (Some(value), vec![word]),
                    None => {
                        let value = words.next();
                        (value.clone(), std::iter::once(word).chain(value).collect())
                    }
                };
                items.push(Item::Option(short, value, whole));
            } else if let Some(name) = JOINED.iter().find(|name| {
                text.starts_with(**name)
                    && !FLAGS.iter().any(|(long, short)| *long == text || *short == text)
                    && ![OTHER_JOBS, DEVICE_ONLY].concat().contains(&text.as_str())
            }) {
                items.push(Item::Option((*name).to_owned(), Some(OsString::from(&text[name.len()..])), vec![word]));
            } else {
                items.push(Item::Option(short(FLAGS).unwrap_or_else(|| name.to_owned()), joined, vec![word]));
            }
        }
        Self { items }
    }

    pub fn action(&self) -> NvccAction {
        if self.has(|name| OTHER_JOBS.contains(&name)) {
            NvccAction::Other
        } else if self.has(|name| DEVICE_ONLY.contains(&name)) {
            NvccAction::CompileForDevice
        } else if self.has(|name| ["c", "dc", "dw"].contains(&name)) {
            NvccAction::Compile
        } else {
            NvccAction::CompileAndLink
        }
    }

    /// Whether the job makes a program with the static CUDA runtime, nvcc's default.
    pub fn links_static_runtime(&self) -> bool {
        let runtime = self.last("cudart").and_then(OsStr::to_str).unwrap_or("static");
        let has_input = self.items.iter().any(|item| matches!(item, Item::Input(_)));
        has_input && self.action() == NvccAction::CompileAndLink && runtime == "static"
    }

    /// Whether the job makes code that gets no IR.
    pub fn makes_other_code(&self) -> bool {
        let makes_none = self.has(|name| OTHER_JOBS.contains(&name) && !MAKE_CODE.contains(&name));
        self.has(|name| MAKE_CODE.contains(&name)) && !makes_none
    }

    fn has(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.options().any(|(name, _)| is_it(name))
    }

    fn options(&self) -> impl Iterator<Item = (&str, Option<&OsStr>)> {
        self.items.iter().filter_map(|item| match item {
            Item::Option(name, value, _) => Some((name.as_str(), value.as_deref())),
            Item::Input(_) => None,
        })
    }

    fn last(&self, wanted: &str) -> Option<&OsStr> {
        self.options().filter(|(name, _)| *name == wanted).filter_map(|(_, value)| value).last()
    }

    fn is_cuda(&self, path: &OsStr) -> bool {
        match self.last("x").and_then(OsStr::to_str) {
            // -x does not change objects and libraries.
            Some("cu") => !Path::new(path)
                .extension()
                .is_some_and(|extension| ["o", "a", "so", "obj", "lib"].iter().any(|known| extension == *known)),
            Some(_) => false,
            None => Path::new(path).extension().is_some_and(|extension| extension == "cu"),
        }
    }

    pub fn cuda_sources(&self) -> Vec<&Path> {
        let inputs = self.items.iter().filter_map(|item| match item {
            Item::Input(path) => Some(path.as_os_str()),
            Item::Option(..) => None,
        });
        inputs.filter(|path| self.is_cuda(path)).map(Path::new).collect()
    }

    /// The object to which `source` is compiled.
    pub fn object_of(&self, source: &Path) -> PathBuf {
        if let Some(output) = self.last("o") {
            return PathBuf::from(output);
        }
        let mut name = source.file_stem().unwrap_or_default().to_owned();
        name.push(".o");
        self.last("odir").map_or_else(PathBuf::new, PathBuf::from).join(name)
    }

    pub fn relocatable(&self) -> bool {
        self.last("rdc").is_some_and(|value| value == "true") || self.has(|name| name == "dc")
    }

    /// The arguments for clang that shape the device code.
    pub fn device_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut joined = |option: &str, value: &OsStr| {
            let mut word = OsString::from(option);
            word.push(value);
            arguments.push(word);
        };
        for (name, value) in self.options() {
            let value = value.unwrap_or_default();
            let is_true = value != "false";
            match name {
                "D" | "U" | "I" => {
                    pieces(value).iter().for_each(|piece| joined(&format!("-{name}"), OsStr::new(piece)))
                }
                "isystem" | "include" => pieces(value).iter().for_each(|piece| {
                    joined(&format!("-{name}"), OsStr::new(""));
                    joined("", OsStr::new(piece));
                }),
                "std" => joined("-std=", value),
                "use_fast_math" => {
                    joined("-fgpu-flush-denormals-to-zero", OsStr::new(""));
                    joined("-fgpu-approx-transcendentals", OsStr::new(""));
                }
                "lineinfo" | "G" => joined("-gline-tables-only", OsStr::new("")),
                "ftz" if is_true => joined("-fgpu-flush-denormals-to-zero", OsStr::new("")),
                "fmad" if !is_true => joined("-ffp-contract=off", OsStr::new("")),
                "extended-lambda" => joined("-D__CUDACC_EXTENDED_LAMBDA__", OsStr::new("")),
                "expt-relaxed-constexpr" => joined("-D__CUDACC_RELAXED_CONSTEXPR__", OsStr::new("")),
                // Options for the host compiler's preprocessor apply to device code too.
                "Xcompiler" => pieces(value)
                    .iter()
                    .filter(|piece| ["-D", "-U", "-I", "-std="].iter().any(|start| piece.starts_with(start)))
                    .for_each(|piece| joined("", OsStr::new(piece))),
                _ => {}
            }
        }
        arguments
    }

    /// The `-c` command for one of the sources of a compile-and-link command.
    pub fn compile_arguments(&self, source: &Path, object: &Path) -> Vec<OsString> {
        const LINKING: &[&str] = &["o", "odir", "l", "L", "Xlinker", "Xnvlink", "shared", "x", "cudart"];
        let kept = self.items.iter().filter_map(|item| match item {
            Item::Option(name, _, words) if !LINKING.contains(&name.as_str()) => Some(words),
            _ => None,
        });
        let mut arguments: Vec<OsString> = kept.flatten().cloned().collect();
        if self.has(|name| ["MD", "MMD"].contains(&name)) {
            let (file, target) = (self.last("MF").is_some(), self.last("MT").is_some());
            let output = self.last("o").map(Path::new);
            arguments.extend(beside::dependency_arguments(output, source, "-MT", file, target));
        }
        arguments.extend(["-c", "-x", "cu"].map(OsString::from));
        arguments.extend([source.as_os_str().to_owned(), "-o".into(), object.as_os_str().to_owned()]);
        arguments
    }

    /// The link of a compile-and-link command. `objects` replace the CUDA sources, in order.
    pub fn link_arguments(&self, objects: &[PathBuf]) -> Vec<OsString> {
        let mut objects = objects.iter();
        let mut arguments = Vec::new();
        let compiles = self.items.iter().any(|item| match item {
            Item::Input(path) => !self.is_cuda(path) && !is_linked(path),
            Item::Option(..) => false,
        });
        for item in &self.items {
            match item {
                Item::Option(name, value, _) if name == "x" && value.as_deref() == Some(OsStr::new("cu")) => {}
                // These files have been written, and a link without compilations would rewrite them.
                Item::Option(name, ..) if !compiles && ["MD", "MMD", "MF", "MT"].contains(&name.as_str()) => {}
                Item::Option(_, _, words) => arguments.extend(words.iter().cloned()),
                Item::Input(path) if self.is_cuda(path) => {
                    arguments.extend(objects.next().map(|object| object.as_os_str().to_owned()))
                }
                Item::Input(path) => arguments.push(path.clone()),
            }
        }
        arguments
    }

    /// A hash that distinguishes the device code of `source` from that of other sources of the program.
    pub fn identity(&self, source: &Path) -> u64 {
        let path = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
        let start = mneme_model::hash::Hash64::new().part(path.as_os_str().as_bytes());
        self.device_arguments().iter().fold(start, |hash, word| hash.part(word.as_bytes())).finish()
    }
}

/// Replaces `--options-file FILE` by the arguments in the file, as nvcc does.
fn expand(arguments: &[OsString], depth: usize) -> Vec<OsString> {
    /// Such files may name others. The limit guards against cycles.
    const DEEPEST: usize = 16;
    let mut expanded = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let option = word.to_str().unwrap_or_default().trim_start_matches('-');
        let file = match option.split_once('=') {
            Some(("optf" | "options-file", file)) => Some(OsString::from(file)),
            _ if word.as_bytes().starts_with(b"-") && matches!(option, "optf" | "options-file") => {
                words.next().cloned()
            }
            _ => None,
        };
        match file.filter(|_| depth < DEEPEST).and_then(|file| std::fs::read(file).ok()) {
            Some(content) => expanded.extend(expand(&tokens(&content), depth + 1)),
            None => expanded.push(word.clone()),
        }
    }
    expanded
}

/// Splits nvcc's lists at commas, except those after a backslash or within quotes or parentheses.
fn pieces(value: &OsStr) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for character in value.to_string_lossy().chars() {
        match character {
            ',' if depth == 0 && !quoted && !escaped => {
                pieces.push(String::new());
                continue;
            }
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if let Some(last) = pieces.last_mut() {
            last.extend(Some('\\').filter(|_| escaped && character != ','));
            last.push(character);
        }
        escaped = false;
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> NvccCommandLine {
        NvccCommandLine::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn joined(arguments: Vec<OsString>) -> String {
        arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn actions_and_sources() {
        use NvccAction::*;
        for (line, action, sources) in [
            ("-arch=sm_90 -c a.cu -o a.o", Compile, "a.cu"),
            ("--compile --gpu-architecture sm_90 a.cu", Compile, "a.cu"),
            ("-dc a.cu b.cu", Compile, "a.cu b.cu"),
            ("-x cu -c a.cpp", Compile, "a.cpp"),
            ("-x c++ a.cu -c", Compile, ""),
            ("-gencode arch=compute_80,code=sm_80 a.cu main.o -o app -lcublas", CompileAndLink, "a.cu"),
            ("-dlink a.o b.o -o d.o", Other, ""),
            ("-ptx a.cu", CompileForDevice, "a.cu"),
            ("--cubin -arch=sm_90 a.cu -o a.cubin", CompileForDevice, "a.cu"),
            ("-ptx --dryrun a.cu", Other, "a.cu"),
            ("--version", Other, ""),
            ("-M a.cu", Other, "a.cu"),
            ("-MD -MF a.d -c a.cu", Compile, "a.cu"),
            ("-Xcompiler -fPIC -shared a.cu -o a.so", CompileAndLink, "a.cu"),
        ] {
            let parsed = parse(line);
            assert_eq!(parsed.action(), action, "{line}");
            let found: Vec<_> = parsed.cuda_sources().iter().map(|path| path.to_string_lossy().into_owned()).collect();
            assert_eq!(found.join(" "), sources, "{line}");
        }
    }

    #[test]
    fn programs_have_the_static_runtime_unless_told_otherwise() {
        let links = |line: &str| parse(line).links_static_runtime();
        assert!(links("a.cu -o app") && links("a.o -o app") && links("-cudart=static a.cu"));
        for line in ["-cudart shared a.cu", "--cudart=none a.o", "-c a.cu", "--version", "-ptx a.cu"] {
            assert!(!links(line), "{line}");
        }
    }

    #[test]
    fn clang_is_told_in_its_own_words() {
        let line = "-Iinc -I inc2,inc3 -DA=1 -D B -DC=f(1,2) --define-macro=E -UF -isystem sys -std=c++17 -O2 -G -lineinfo -rdc=true -use_fast_math \
                    -fmad=false --extended-lambda -maxrregcount=64 -Xptxas -v -Xcompiler -fPIC,-DHOST=2 -ccbin g++ -c dir/a.cu -odir out";
        let parsed = parse(line);
        assert_eq!(
            joined(parsed.device_arguments()),
            "-Iinc -Iinc2 -Iinc3 -DA=1 -DB -DC=f(1,2) -DE -UF -isystem sys -std=c++17 -gline-tables-only -gline-tables-only -fgpu-flush-denormals-to-zero -fgpu-approx-transcendentals \
             -ffp-contract=off -D__CUDACC_EXTENDED_LAMBDA__ -DHOST=2"
        );
        assert!(parsed.relocatable() && parse("-dc a.cu").relocatable() && !parse("-rdc=false -c a.cu").relocatable());
        assert_eq!(parsed.object_of(Path::new("dir/a.cu")), Path::new("out/a.o"));
        assert_eq!(parse("-c a.cu -o x.obj").object_of(Path::new("a.cu")), Path::new("x.obj"));
    }

    #[test]
    fn options_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("args.rsp");
        std::fs::write(&path, "-DX=1 -I\"some dir\" a.cu\n").unwrap();
        let parsed = NvccCommandLine::parse(&["--options-file".into(), path.into(), "-c".into()]);
        assert_eq!(parsed.cuda_sources(), [Path::new("a.cu")]);
        assert_eq!(joined(parsed.device_arguments()), "-DX=1 -Isome dir");
    }

    #[test]
    fn one_command_becomes_compiles_and_a_link() {
        let parsed = parse("-arch=sm_90 -O3 a.cu main.cpp b.cu -o app -Llib -lx -Xlinker -rpath,y");
        assert_eq!(
            joined(parsed.compile_arguments(Path::new("a.cu"), Path::new("/t/0.o"))),
            "-arch=sm_90 -O3 -c -x cu a.cu -o /t/0.o"
        );
        let objects = [PathBuf::from("/t/0.o"), PathBuf::from("/t/1.o")];
        assert_eq!(
            joined(parsed.link_arguments(&objects)),
            "-arch=sm_90 -O3 /t/0.o main.cpp /t/1.o -o app -Llib -lx -Xlinker -rpath,y"
        );
        assert_eq!(joined(parse("-x cu a.cpp -o app").link_arguments(&objects[..1])), "/t/0.o -o app");
        for option in ["-MD", "--generate-dependencies-with-compile"] {
            let line = parse(&format!("{option} a.cu -o app"));
            let compile = joined(line.compile_arguments(Path::new("a.cu"), Path::new("/t/0.o")));
            assert_eq!(compile, format!("{option} -MF app.d -MT app -c -x cu a.cu -o /t/0.o"));
            assert_eq!(joined(line.link_arguments(&objects[..1])), "/t/0.o -o app");
            let line = parse(&format!("{option} a.cu b.cpp -o app"));
            assert_eq!(joined(line.link_arguments(&objects[..1])), format!("{option} /t/0.o b.cpp -o app"));
        }
    }
}
