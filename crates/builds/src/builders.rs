//! The builders of an installation, one program per version of LLVM, and the choice among them.

use mneme_image::bitcode;
use mneme_model::llvm_version;
use mneme_system::install;

use crate::builder::{BuildProgram, ProgramError};

/// At least one, oldest first.
pub struct Builders {
    programs: Vec<(u32, BuildProgram)>,
}

impl Builders {
    /// The builders of this installation, without starting any process.
    ///
    /// # Errors
    /// The installation has no builder.
    pub fn find() -> Result<Self, ProgramError> {
        let programs: Vec<_> =
            install::builders().into_iter().map(|(version, path)| (version, BuildProgram::at(path))).collect();
        if programs.is_empty() { Err(ProgramError::Missing) } else { Ok(Self { programs }) }
    }

    /// The versions of LLVM, oldest first.
    pub fn versions(&self) -> Vec<u32> {
        self.programs.iter().map(|(version, _)| *version).collect()
    }

    /// The full versions of the builders that work, as in [`BuildProgram::llvm`].
    pub fn whole_versions(&self) -> Vec<String> {
        self.programs.iter().filter_map(|(_, program)| program.llvm().ok()).map(str::to_owned).collect()
    }

    /// The newest version.
    pub fn newest(&self) -> u32 {
        self.programs.last().map_or(0, |(version, _)| *version)
    }

    /// The builder for one of [`Builders::versions`].
    ///
    /// # Errors
    /// The builder is not installed.
    pub fn of(&self, version: u32) -> Result<&BuildProgram, ProgramError> {
        let found = self.programs.iter().find(|(installed, _)| *installed == version);
        found
            .map(|(_, program)| program)
            .ok_or_else(|| ProgramError::NotInstalled { requested: version, installed: self.versions() })
    }

    /// The builder's version for code that LLVM `written_by` wrote: the same version, because others produce different
    /// code from the application's, or else the next newer one. If the writer is unknown, the oldest.
    ///
    /// # Errors
    /// No installed builder can read the code.
    pub fn fitting(&self, written_by: Option<u32>) -> Result<u32, ProgramError> {
        choose(&self.versions(), written_by)
    }

    /// The version to compile code that LLVM `written_by` wrote; a configuration may have requested one.
    ///
    /// # Errors
    /// The requested version is not installed, or cannot read the code.
    pub fn chosen(&self, requested: Option<u32>, written_by: Option<u32>) -> Result<u32, ProgramError> {
        let Some(requested) = requested else { return self.fitting(written_by) };
        // A version that cannot read the IR fails whether or not it is installed.
        match written_by.filter(|found| *found > requested) {
            Some(found) => Err(ProgramError::OlderThanIr { requested, found }),
            None => self.of(requested).map(|_| requested),
        }
    }
}

/// The newest LLVM that wrote one of these modules; `None` if no module names its writer, such as text not written by
/// clang.
pub fn written_by<'a>(modules: impl IntoIterator<Item = &'a [u8]>) -> Option<u32> {
    modules.into_iter().filter_map(|module| llvm_version::major(&written(module)?)).max()
}

/// The writer of a module: LLVM for bitcode, LLVM or clang for text. `None` if the module does not name it.
fn written(module: &[u8]) -> Option<String> {
    bitcode::producer(module).or_else(|| bitcode::writer_of_text(module))
}

/// The full version of the newest writer, e.g. "19.1.7".
pub fn newest_version<'a>(modules: impl IntoIterator<Item = &'a [u8]>) -> Option<String> {
    let producers = modules.into_iter().filter_map(written);
    producers
        .max_by_key(|producer| llvm_version::major(producer))
        .map(|producer| llvm_version::number(&producer).to_owned())
}

fn choose(installed: &[u32], written_by: Option<u32>) -> Result<u32, ProgramError> {
    let least = written_by.unwrap_or(0);
    let found = installed.iter().copied().find(|version| *version >= least);
    found.ok_or_else(|| ProgramError::NewerIr { found: least, installed: installed.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builders(versions: &[u32]) -> Builders {
        let program = |version: &u32| (*version, BuildProgram::at(format!("mneme-build-{version}").into()));
        Builders { programs: versions.iter().map(program).collect() }
    }

    #[test]
    fn the_version_that_wrote_the_ir_compiles_it_or_the_next_newer_one() {
        let of = |found| choose(&[19, 22], found);
        assert_eq!([Some(19), Some(20), Some(7), None].map(|found| of(found).unwrap()), [19, 22, 19, 19]);
        let newer = of(Some(23));
        assert!(matches!(newer, Err(ProgramError::NewerIr { found: 23, installed }) if installed == [19, 22]));
    }

    #[test]
    fn what_a_configuration_asks_for_is_there_and_reads_the_ir() {
        let of = |requested, found| builders(&[19, 22]).chosen(Some(requested), found);
        assert_eq!([of(22, Some(19)).unwrap(), of(19, None).unwrap()], [22, 19]);
        let absent = of(21, Some(19));
        assert!(
            matches!(absent, Err(ProgramError::NotInstalled { requested: 21, installed }) if installed == [19, 22])
        );
        assert!(matches!(of(19, Some(22)), Err(ProgramError::OlderThanIr { requested: 19, found: 22 })));
    }
}
