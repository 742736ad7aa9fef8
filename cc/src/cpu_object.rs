//! The option `--mneme-cpu-object`, with which the CPU device has code compiled.
//!
//! See docs/reference/cpu-code-objects.md.

use std::ffi::OsString;
use std::io::{Read, Write};

use anyhow::{Context, bail};

use crate::builder;

/// Reads bitcode modules from standard input, each after its length as a little-endian u64. Writes the object to
/// standard output.
pub fn run(arguments: &[OsString]) -> anyhow::Result<u8> {
    match build(arguments) {
        Ok(object) => {
            std::io::stdout().write_all(&object).context("the object cannot be written to standard output")?;
            Ok(0)
        }
        Err(error) => {
            mneme_system::remark!("mneme-cc: {error:#}");
            Ok(mneme_system::exit::BUILD_FAILED as u8)
        }
    }
}

fn build(arguments: &[OsString]) -> anyhow::Result<Vec<u8>> {
    let (mut passes, mut arch, mut compiled) = (None, "sm_90".to_owned(), None);
    let mut rest = arguments.iter().map(|argument| argument.to_string_lossy());
    while let Some(option) = rest.next() {
        let value = rest.next().with_context(|| format!("{option} needs a value"))?.into_owned();
        match &*option {
            "--passes" => passes = Some(value),
            "--arch" => arch = value,
            "--compiled" => compiled = Some(serde_json::from_str(&value).context("--compiled takes JSON")?),
            _ => bail!("--mneme-cpu-object takes --passes, --arch and --compiled, not {option}"),
        }
    }
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).context("standard input cannot be read")?;
    let modules = split(&input).context("standard input must be a sequence of bitcode modules with their lengths")?;
    let modules: Vec<Vec<u8>> = modules.into_iter().map(<[u8]>::to_vec).collect();
    builder::cpu_object(&modules, arch, compiled, passes)
}

fn split(mut input: &[u8]) -> Option<Vec<&[u8]>> {
    let mut modules = Vec::new();
    while !input.is_empty() {
        let (length, rest) = input.split_first_chunk::<8>()?;
        let (module, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        modules.push(module);
        input = rest;
    }
    Some(modules)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn modules_are_cut_by_their_lengths() {
        let mut input = Vec::new();
        for module in [&b"one"[..], b"", b"three"] {
            input.extend((module.len() as u64).to_le_bytes());
            input.extend(module);
        }
        assert_eq!(split(&input).unwrap(), [&b"one"[..], b"", b"three"]);
        assert!(split(&input[..input.len() - 1]).is_none());
        assert!(split(&[255; 8]).is_none());
    }
}
