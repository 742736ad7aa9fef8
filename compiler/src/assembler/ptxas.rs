//! The assembler `ptxas`, run as a program.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_sandbox::tools::{self, TransientFile};
use mneme_system::install;
use mneme_system::toolkits::toolkits;

use super::{AssemblerOptions, Rejection};

pub struct Ptxas {
    program: PathBuf,
    version: String,
}

impl Ptxas {
    /// Finds the program on the search path, or else in the CUDA toolkits.
    pub fn find() -> Option<Self> {
        let folders = install::search_path().into_iter().chain(toolkits().into_iter().map(|root| root.join("bin")));
        folders
            .map(|folder| folder.join("ptxas"))
            .filter(|program| program.is_file())
            .find_map(|program| Self::new(&program))
    }

    fn new(program: &Path) -> Option<Self> {
        let output =
            tools::output(Command::new(program).arg("--version")).ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version =
            text.split("release ").nth(1).and_then(|rest| rest.split([',', '\n']).next()).unwrap_or("").to_owned();
        Some(Self { program: program.to_owned(), version })
    }

    pub fn name(&self) -> String {
        format!("ptxas {}", self.version).trim_end().to_owned()
    }

    /// Assembles PTX text for `device`. Returns the program's log with the code, or its message as the error.
    pub(super) fn assemble(
        &self,
        ptx: &str,
        device: &str,
        options: AssemblerOptions<'_>,
    ) -> Result<(Vec<u8>, String), Rejection> {
        let failed = |what: String| Rejection::Ptx(what);
        let pass = |contents: &[u8]| {
            TransientFile::new(contents).map_err(|error| failed(format!("the PTX cannot be passed to it: {error}")))
        };
        let (source, mut cubin) = (pass(ptx.as_bytes())?, pass(&[])?);
        let mut command = Command::new(&self.program);
        command.arg(format!("-arch={device}")).args(options.arguments()).arg("-o").arg(cubin.path()).arg(source.path());
        let output = tools::output(&mut command)
            .map_err(|error| failed(format!("{} cannot be run: {error}", self.program.display())))?;
        let words = [output.stderr, output.stdout].concat();
        let words = String::from_utf8_lossy(&words);
        if let Some(signal) = output.status.signal() {
            return Err(Rejection::Ended(format!("was ended by signal {signal}")));
        }
        if !output.status.success() {
            let words = words.lines().filter(|line| !line.starts_with("ptxas info")).collect::<Vec<_>>().join("; ");
            return Err(if words.contains("option 'gpu-name'") { Rejection::Architecture } else { failed(words) });
        }
        let image = cubin.read().map_err(|error| failed(format!("its machine code cannot be read: {error}")))?;
        Ok((image, words.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_ended_says_nothing_of_the_ptx() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ptxas");
        mneme_fixtures::script(&program, "#!/bin/sh\nkill -SEGV $$\n");
        let ptxas = Ptxas { program, version: "13.0".into() };
        let error = ptxas.assemble("", "sm_90", AssemblerOptions::default()).unwrap_err();
        assert!(matches!(error, Rejection::Ended(how) if how == "was ended by signal 11"));
        let ptx = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
        let left =
            super::super::Assembler::Ptxas(ptxas).assemble(ptx, "k", "sm_90", AssemblerOptions::default()).unwrap();
        assert_eq!(left.kind, mneme_builds::ImageKind::Ptx);
        assert_eq!(left.assembler, "the driver's PTX compiler (ptxas 13.0, whole programs was ended by signal 11)");
    }

    #[test]
    fn a_kernel_assembles_and_nonsense_is_rejected_in_ptxas_words() {
        let Some(ptxas) = Ptxas::find() else {
            mneme_fixtures::skip("no ptxas on this machine");
            return;
        };
        let ptx = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
        assert!(ptxas.assemble(ptx, "sm_90", AssemblerOptions::default()).unwrap().0.starts_with(b"\x7fELF"));
        assert!(matches!(
            ptxas.assemble(&ptx.replace("ret", "rot"), "sm_90", AssemblerOptions::default()),
            Err(Rejection::Ptx(words)) if words.contains("rot")
        ));
        assert!(matches!(ptxas.assemble(ptx, "sm_999", AssemblerOptions::default()), Err(Rejection::Architecture)));
    }
}
