//! Code that clang compiles for the device alone, as programs load from a file (`hipModuleLoad`).
//!
//! There is no object of the host's that could hold its IR, so a code object for an AMD GPU gets the section itself. It
//! is not loaded with the code, as debugging information is not. A bundle of code objects is made anew by the command
//! with which clang has made it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use mneme_core::image::bundle;

use crate::ACTIVE;
use crate::arguments::{Language, Source};
use crate::clang::{Log, Record, User, records, warn};
use crate::elf;

/// What can be done for code that gets no IR.
pub const REMEDY: &str = "its kernels are recorded from IR where MNEME_IR_PATH names a file of it";
/// Options of clang's bundler.
const INPUT: &str = "-input=";
const OUTPUT: &str = "-output=";

/// A command of clang's that made code objects, or a bundle of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    words: Vec<String>,
    inputs: Vec<PathBuf>,
    output: PathBuf,
    /// How many compilations clang had logged before it.
    pub after: usize,
}

impl Made {
    /// By the words of a logged command; `None` for one that makes neither.
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

    fn is_bundle(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// The same command's arguments, with other files.
    fn words_with(&self, inputs: &[PathBuf], output: &Path) -> Vec<OsString> {
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

/// Adds the IR of each source to the code that was made of it, or says why it gets none.
pub fn embed(user: &User, log: &Log) {
    for source in user.line.sources() {
        if let Err(reason) = embed_one(user, source, log) {
            warn(source.path, &format!("{reason:#}; {REMEDY}"));
        }
    }
}

fn embed_one(user: &User, source: Source<'_>, log: &Log) -> anyhow::Result<()> {
    if source.language == Language::Cuda {
        // What clang embeds itself is found in the code.
        ensure!(
            user.line.embeds_bitcode(),
            "it is code for NVIDIA's GPUs alone, into which only clang's -fembed-bitcode=all puts IR"
        );
        return Ok(());
    }
    ensure!(!user.line.relocatable(), "it is relocatable code for the device alone");
    let sources = user.line.sources();
    let inputs: Vec<&PathBuf> = log.made.iter().flat_map(|made| &made.inputs).collect();
    let own = log.made.iter().filter_map(|made| Some((made, log.compilation_before(made, &sources)?)));
    let own = own.filter(|(made, compilation)| {
        compilation.source == source.path && !inputs.contains(&&made.output) && made.output.is_file()
    });
    let own: Vec<_> = own.collect();
    ensure!(!own.is_empty(), "clang does not say where the code for the device alone is");
    let records = records(user, source, log, &[]);
    for (made, compilation) in own {
        let added = if made.is_bundle() {
            add_to_bundle(made, &records)
        } else {
            let record = records.iter().find(|record| record.target == compilation.target);
            record.map_or(Ok(()), |record| elf::append(&made.output, &record.bytes))
        };
        added.with_context(|| format!("{} is left as it is", made.output.display()))?;
    }
    Ok(())
}

fn add_to_bundle(made: &Made, records: &[Record]) -> anyhow::Result<()> {
    let bytes = fs::read(&made.output)?;
    let plain = bundle::plain(&bytes).context("it is no offload bundle that can be read")?;
    let entries = bundle::entries(&plain);
    ensure!(entries.len() == made.inputs.len(), "it has other entries than clang says");
    let has = |record: &Record| entries.iter().any(|entry| entry.processor() == record.target);
    ensure!(records.iter().all(has), "it has other processors than clang says");
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
    let mut parts = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let record = records.iter().find(|record| record.target == entry.processor());
        let with_ir = record.map(|record| elf::with_section(entry.bytes, &record.bytes)).transpose()?;
        let part = folder.path().join(index.to_string());
        fs::write(&part, with_ir.as_deref().unwrap_or(entry.bytes))?;
        parts.push(part);
    }
    let whole = folder.path().join("whole");
    let run = Command::new(&made.words[0])
        .args(made.words_with(&parts, &whole))
        .env(ACTIVE, "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", made.words[0]))?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr).trim());
    elf::replace(&made.output, &fs::read(&whole)?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
