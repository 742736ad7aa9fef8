//! The log of the commands that clang ran (`CC_PRINT_OPTIONS`).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use mneme_model::compile_options::CompileOptions;

use crate::arguments::DeviceSource;
use crate::process::quoted;

/// Options of clang's bundler.
const INPUT: &str = "-input=";
const OUTPUT: &str = "-output=";

/// A command by clang that made code objects, or a bundle of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    pub words: Vec<String>,
    pub inputs: Vec<PathBuf>,
    pub output: PathBuf,
    /// The number of compilations in the log before it.
    pub after: usize,
}

impl Made {
    /// Reads the words of a logged command; `None` if it makes neither.
    pub fn by(words: &[String], after: usize) -> Option<Self> {
        let program = Path::new(words.first()?).file_name()?.to_str()?;
        let values =
            |option: &'static str| words.iter().filter_map(move |word| word.strip_prefix(option)).map(PathBuf::from);
        let (inputs, output) = match program {
            "lld" | "ld.lld" => (Vec::new(), words.iter().skip_while(|word| *word != "-o").nth(1)?.into()),
            "clang-offload-bundler" => (values(INPUT).collect(), values(OUTPUT).next()?),
            _ => return None,
        };
        Some(Self { words: words.to_vec(), inputs, output, after })
    }

    pub fn is_bundle(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// The same command's arguments with other files.
    pub fn words_with(&self, inputs: &[PathBuf], output: &Path) -> Vec<OsString> {
        let mut inputs = inputs.iter();
        let file = |option: &str, path: &Path| [OsStr::new(option), path.as_os_str()].into_iter().collect::<OsString>();
        let word = |word: &String| match word {
            word if word.starts_with(INPUT) => inputs.next().map_or_else(|| word.into(), |path| file(INPUT, path)),
            word if word.starts_with(OUTPUT) => file(OUTPUT, output),
            word => word.into(),
        };
        self.words[1..].iter().map(word).collect()
    }
}

/// A device compilation that clang ran.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceCompilation {
    pub source: PathBuf,
    /// "sm_90", or an AMD processor without its features.
    pub arch: String,
    /// The value of `--offload-arch` for it: the processor with the features that are part of its name.
    pub target: String,
    pub cuid: Option<String>,
    pub options: CompileOptions,
}

/// The programs that pack device code for a link, by their names until LLVM 21 and from LLVM 22 on.
const PACKAGERS: [&str; 2] = ["clang-offload-packager", "llvm-offload-binary"];

#[derive(Debug, Default)]
pub struct Log {
    pub compilations: Vec<DeviceCompilation>,
    /// The commands that made code objects of the compilations.
    pub made: Vec<Made>,
    /// Whether the objects contain packaged device code, which the link has to link (clang's new offload driver).
    pub packaged: bool,
}

impl Log {
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for words in commands(text).into_iter().map(quoted) {
            let program = words.first().map_or("", String::as_str);
            log.packaged |= PACKAGERS.iter().any(|name| program.ends_with(name));
            if program.ends_with("ptxas") {
                log.assembled(&words[1..]);
            }
            if !words.iter().any(|word| word == "-fcuda-is-device") {
                log.made.extend(Made::by(&words, log.compilations.len()));
                continue;
            }
            let after = |option: &str| words.iter().skip_while(|word| *word != option).nth(1).cloned();
            let (Some(arch), Some(source)) = (after("-target-cpu"), words.last()) else { continue };
            // As in clang, the last one counts.
            let cuid = words
                .iter()
                .rev()
                .find_map(|word| word.strip_prefix("-cuid="))
                .filter(|cuid| !cuid.is_empty())
                .map(str::to_owned);
            let target = target_id(&arch, &words);
            let options = CompileOptions::of_clang(&words);
            let compilation = DeviceCompilation { source: source.into(), arch, target, cuid, options };
            // With -save-temps, one compilation is several commands. The first of them has read the source.
            if !log
                .compilations
                .iter()
                .any(|known| (&known.source, &known.target) == (&compilation.source, &compilation.target))
            {
                log.compilations.push(compilation);
            }
        }
        log
    }

    /// The latest compilation of a source before a command.
    pub fn compilation_before(&self, made: &Made, sources: &[DeviceSource<'_>]) -> Option<&DeviceCompilation> {
        let mut before = self.compilations[..made.after].iter();
        before.rfind(|compilation| sources.iter().any(|source| source.path == compilation.source))
    }

    /// Reads a ptxas command, which belongs to the latest compilation of its architecture that has not been assembled
    /// yet.
    fn assembled(&mut self, words: &[String]) {
        let arch = words.iter().skip_while(|word| *word != "--gpu-name").nth(1);
        if let Some(compilation) = self.compilations.iter_mut().rev().find(|it| Some(&it.arch) == arch) {
            compilation.options = std::mem::take(&mut compilation.options).with_ptxas(words);
        }
    }
}

/// The commands of a log, one per line. Words may contain line breaks.
fn commands(text: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let (mut start, mut within, mut escaped) = (0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            '\n' if !within => {
                commands.push(&text[start..at]);
                start = at + 1;
            }
            '"' if !escaped => within = !within,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
    }
    commands.push(&text[start..]);
    commands
}

/// An AMD processor with the features for which code is made one way or the other: "gfx90a:sramecc+:xnack-".
fn target_id(processor: &str, words: &[String]) -> String {
    let told = words.windows(2).filter(|pair| pair[0] == "-target-feature").map(|pair| pair[1].as_str());
    let told: Vec<&str> = told.collect();
    let sign = |feature: &str| {
        // The last one counts.
        let sign =
            told.iter().rev().find_map(|word| word.strip_suffix(feature).filter(|sign| ["+", "-"].contains(sign)))?;
        Some(format!(":{feature}{sign}"))
    };
    [Some(processor.to_owned()), sign("sramecc"), sign("xnack")].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amds_targets_have_their_features() {
        let line = |features: &str| {
            let words = format!("-cc1 -fcuda-is-device -target-cpu gfx90a {features} -x hip a.hip");
            words.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
        };
        let lines = [
            "",
            "-target-feature +xnack -target-feature -sramecc -target-feature +cumode",
            "-target-feature +xnack -target-feature -xnack",
        ];
        let log = Log::parse(&lines.map(line).join("\n"));
        let found: Vec<_> = log.compilations.iter().map(|it| (it.arch.as_str(), it.target.as_str())).collect();
        assert_eq!(found, [("gfx90a", "gfx90a"), ("gfx90a", "gfx90a:sramecc-:xnack+"), ("gfx90a", "gfx90a:xnack-")]);
    }

    #[test]
    fn the_log_tells_sources_architectures_and_ids() {
        let text = concat!(
            "[Logging clang options]\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-O2\" \"-fcuda-is-device\" \"-cuid=00\" \"-cuid=12ab\" \"-target-cpu\" \"sm_80\" \"-D\" \"S=\\\"a b\\\"\" \"-x\" \"cuda\" \"a dir/a.cu\"\n",
            " \"/cuda/bin/ptxas\" \"-m64\" \"-O2\" \"--gpu-name\" \"sm_80\" \"--output-file\" \"a.o\" \"a.s\" \"-maxrregcount=32\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-fcuda-is-device\" \"-target-cpu\" \"sm_90\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-emit-llvm-bc\" \"-fcuda-is-device\" \"-target-cpu\" \"sm_90\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-target-cpu\" \"x86-64\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang-offload-packager\" \"-o\" \"x\"\n",
        );
        let log = Log::parse(text);
        let options = |level: &str, ptx_opt, ptxas: &[&str]| CompileOptions {
            level: level.into(),
            contract: "fast".into(),
            ptx_opt,
            ptxas_options: ptxas.iter().map(ToString::to_string).collect(),
            ..CompileOptions::default()
        };
        let compilation = |source: &str, arch: &str, cuid: Option<&str>, options| DeviceCompilation {
            source: source.into(),
            arch: arch.into(),
            target: arch.into(),
            cuid: cuid.map(str::to_owned),
            options,
        };
        let first = compilation("a dir/a.cu", "sm_80", Some("12ab"), options("2", 2, &["-maxrregcount=32"]));
        assert_eq!(log.compilations, [first, compilation("b.cu", "sm_90", None, options("0", 3, &[]))]);
        assert!(log.packaged);
    }

    #[test]
    fn a_word_may_have_line_breaks_and_quotes() {
        let text = " \"clang\" \"-D\" \"Q=a\nb\" \"S=\\\"\\\\\"\n \"ptxas\" \"x\"\n";
        let words: Vec<_> = commands(text).into_iter().map(quoted).collect();
        assert_eq!(words, [vec!["clang", "-D", "Q=a\nb", "S=\"\\"], vec!["ptxas", "x"], vec![]]);
    }

    #[test]
    fn a_bundle_is_made_anew_with_the_same_options() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "/llvm/clang-offload-bundler -type=o -targets=host,gfx90a -input=/dev/null -input=a.out -output=a.co -compress";
        let made = Made::by(&words(line), 1).unwrap();
        assert!(made.is_bundle() && made.after == 1);
        assert_eq!((made.inputs.len(), made.output.to_str()), (2, Some("a.co")));
        let parts = ["/t/0", "/t/1"].map(PathBuf::from);
        let expected = words("-type=o -targets=host,gfx90a -input=/t/0 -input=/t/1 -output=/t/whole -compress");
        assert_eq!(
            made.words_with(&parts, Path::new("/t/whole")),
            expected.into_iter().map(OsString::from).collect::<Vec<_>>()
        );
        let link = Made::by(&words("/llvm/lld -flavor gnu -shared -o a.out a.o"), 1).unwrap();
        assert!(!link.is_bundle() && link.output == Path::new("a.out"));
        assert_eq!(Made::by(&words("/usr/bin/ld -o a a.o"), 1), None);
    }
}
