//! Answers requests for the recording's IR and memory.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use mneme_builds::Refusal;
use mneme_builds::builder::{AskError, BuildProgram, ProgramError};
use mneme_builds::protocol::{CodeParts, Question};
use mneme_model::launch::Moment;
use mneme_model::protocol::{Part, Region, Reply};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::context::ReplayContext;
use crate::recording::snapshot;

/// The time limit of linking.
const LINK_LIMIT: Duration = Duration::from_secs(60);

/// Files that last as long as the server.
#[derive(Default)]
pub struct Data {
    ir: Option<File>,
}

/// The path under which other processes can open a file of this process.
fn path(file: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

impl Data {
    /// The kernel's IR in one module.
    pub fn ir(&mut self, context: &ReplayContext) -> Reply {
        let linked = match self.ir.take() {
            Some(file) => Ok(file),
            None if context.modules.is_empty() => Err(NoIr::NotRecorded),
            None => match context.programs.of(context.llvm) {
                Ok(program) => link(program, &context.modules),
                Err(error) => Err(NoIr::Program(error)),
            },
        };
        match linked {
            Ok(file) => Reply::Ir { path: path(self.ir.insert(file).as_fd()) },
            Err(error) => Reply::Error { id: None, error: error.to_string() },
        }
    }
}

/// Why no single module contains the kernel's IR.
#[derive(Debug, thiserror::Error)]
enum NoIr {
    #[error("the recording has no LLVM IR of the kernel; its code is PTX or machine code")]
    NotRecorded,
    #[error(transparent)]
    Program(ProgramError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("cannot link the IR: {0}")]
    Unanswered(AskError),
    #[error("cannot link the IR: {0}")]
    File(#[from] std::io::Error),
}

impl From<AskError> for NoIr {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Unanswered { complaint: Some(complaint), .. } => Self::Refused(Refusal(complaint)),
            error => Self::Unanswered(error),
        }
    }
}

/// Links in a separate process, because LLVM may crash on its input.
fn link(program: &BuildProgram, modules: &[Vec<u8>]) -> Result<File, NoIr> {
    let mut file = File::from(memfd_create(c"IR", MFdFlags::MFD_CLOEXEC).map_err(std::io::Error::from)?);
    if let [module] = modules {
        file.write_all(module)?;
        return Ok(file);
    }
    let (parts, blob) = CodeParts::join(modules, None);
    let (linked, bitcode) = program.ask::<Result<(), Refusal>>(Question::Link { parts }, &blob, LINK_LIMIT)?;
    linked?;
    file.write_all(&bitcode)?;
    Ok(file)
}

/// The places of the recorded memory in the snapshot's file.
pub fn memory(context: &ReplayContext, moment: Moment, wanted: Option<&str>) -> Reply {
    let file = path(context.snapshot.file());
    let regions: Vec<Region> = context
        .snapshot
        .layout
        .regions
        .iter()
        .filter(|region| wanted.is_none_or(|wanted| is(region, wanted)))
        .map(|region| Region {
            variable: region.variable.clone(),
            tag: region.tag.clone(),
            address: format!("0x{:x}", region.address),
            size: region.size,
            path: file.clone(),
            parts: match moment {
                Moment::Prologue => vec![region.part_before()],
                Moment::Epilogue => region.parts_after(),
            },
        })
        .collect();
    match wanted {
        Some(wanted) if regions.is_empty() => {
            let error = format!(
                "the recording has no variable, tag or address '{wanted}'; a memory request without a region names all"
            );
            Reply::Error { id: None, error }
        }
        _ => Reply::Memory { moment, regions },
    }
}

/// Whether a region has this name, tag or address.
fn is(region: &snapshot::SnapshotRegion, wanted: &str) -> bool {
    let address = wanted.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    region.variable.as_deref() == Some(wanted)
        || (!region.tag.is_empty() && region.tag == wanted)
        || address.is_some_and(|address| (region.address..region.address + region.size).contains(&address))
}

impl snapshot::SnapshotRegion {
    /// The place of the bytes before the launch.
    fn part_before(&self) -> Part {
        Part { at: 0, offset: self.offset_before(0), size: self.size }
    }

    /// The places of the bytes after the launch, without gaps.
    fn parts_after(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |part: Part| match parts.last_mut() {
            Some(last) if last.at + last.size == part.at && last.offset + last.size == part.offset => {
                last.size += part.size
            }
            _ => parts.push(part),
        };
        let mut end = 0;
        for changed in &self.changed {
            let (at, size) = self.extent(changed.index);
            if at > end {
                add(Part { at: end, offset: self.offset_before(end), size: at - end });
            }
            add(Part { at, offset: changed.offset(), size });
            end = at + size;
        }
        if end < self.size {
            add(Part { at: end, offset: self.offset_before(end), size: self.size - end });
        }
        parts
    }
}
