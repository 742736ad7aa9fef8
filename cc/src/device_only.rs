//! Code that clang compiles for the device only, which programs load from a file (`hipModuleLoad`).
//!
//! No host object can contain its IR, so a code object for an AMD GPU gets the section itself. Like debugging
//! information, the section is not loaded with the code. A bundle of code objects is rebuilt with the command with
//! which clang has made it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use mneme_image::bundle;

use crate::arguments::{DeviceSource, SourceLanguage};
use crate::elf;
use crate::log::{Log, Made};
use crate::process::ACTIVE;
use crate::process::warn;
use crate::records::{Record, User, records};

/// The remedy for code that gets no IR.
pub const REMEDY: &str = "to record its kernels from IR, name a file with the IR in MNEME_IR_PATH";

/// Adds the IR of each source to the code made from it, or warns with the reason.
pub fn embed(user: &User, log: &Log) {
    for source in user.line.sources() {
        if let Err(reason) = embed_one(user, source, log) {
            warn(source.path, &format!("{reason:#}; {REMEDY}"));
        }
    }
}

fn embed_one(user: &User, source: DeviceSource<'_>, log: &Log) -> anyhow::Result<()> {
    if source.language == SourceLanguage::Cuda {
        // mneme finds IR that clang itself embeds.
        ensure!(
            user.line.embeds_bitcode(),
            "it is code for NVIDIA GPUs only; clang's -fembed-bitcode=all puts IR into it"
        );
        return Ok(());
    }
    ensure!(!user.line.relocatable(), "it is relocatable code for the device only");
    let sources = user.line.sources();
    let inputs: Vec<&PathBuf> = log.made.iter().flat_map(|made| &made.inputs).collect();
    let own = log.made.iter().filter_map(|made| Some((made, log.compilation_before(made, &sources)?)));
    let own = own.filter(|(made, compilation)| {
        compilation.source == source.path && !inputs.contains(&&made.output) && made.output.is_file()
    });
    let own: Vec<_> = own.collect();
    ensure!(!own.is_empty(), "clang's log does not name the file of the device code");
    let records = records(user, source, log, &[]);
    for (made, compilation) in own {
        let added = if made.is_bundle() {
            add_to_bundle(made, &records)
        } else {
            let record = records.iter().find(|record| record.target == compilation.target);
            record.map_or(Ok(()), |record| elf::append(&made.output, &record.bytes))
        };
        added.with_context(|| format!("{} was not changed", made.output.display()))?;
    }
    Ok(())
}

fn add_to_bundle(made: &Made, records: &[Record]) -> anyhow::Result<()> {
    let bytes = fs::read(&made.output)?;
    let plain = bundle::plain(&bytes).context("it is not a readable offload bundle")?;
    let entries = bundle::entries(&plain);
    ensure!(entries.len() == made.inputs.len(), "its entries differ from those in clang's log");
    let has = |record: &Record| entries.iter().any(|entry| entry.processor() == record.target);
    ensure!(records.iter().all(has), "its processors differ from those in clang's log");
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
