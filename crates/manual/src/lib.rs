//! Man pages and shell completions, which each program writes from its command line.
//!
//! ```text
//! mneme-replay --generate man share/man/man1
//! mneme-replay --generate bash share/bash-completion/completions
//! ```
//!
//! `scripts/install` does it for all programs. The option is not in `--help`: it is for those who install.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::exit;

use clap::{Command, ValueEnum};
use clap_complete::Shell;

const OPTION: &str = "--generate";

/// Writes a manual and exits, if the process was started for that.
pub fn write_if_requested(command: impl FnOnce() -> Command) {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [option, kind, folder] = &words[..] else { return };
    if option != OPTION {
        return;
    }
    let (kind, folder) = (kind.to_string_lossy(), Path::new(folder));
    match write(command(), &kind, folder) {
        Ok(()) => exit(0),
        Err(error) => {
            eprintln!(
                "{}: a manual for {kind} cannot be written to {}: {error}",
                env!("CARGO_PKG_NAME"),
                folder.display()
            );
            exit(1);
        }
    }
}

/// Writes man pages (`man`: for the program and each of its subcommands) or the completions of a shell to a folder.
///
/// # Errors
/// The kind is unknown, or the system reports an error.
pub fn write(mut command: Command, kind: &str, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    if kind == "man" {
        return clap_mangen::generate_to(command, folder);
    }
    let shell = Shell::from_str(kind, true).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no such kind"))?;
    let name = command.get_name().to_owned();
    clap_complete::generate_to(shell, &mut command, name, folder).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        let sweep = Command::new("sweep")
            .about("Replays many")
            .arg(Arg::new("fresh").long("fresh").action(clap::ArgAction::SetTrue));
        Command::new("program").about("Replays one").arg(Arg::new("rdb").long("rdb").required(true)).subcommand(sweep)
    }

    #[test]
    fn a_program_and_its_subcommands_have_pages() {
        let folder = tempfile::tempdir().unwrap();
        write(command(), "man", &folder.path().join("man1")).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("man1").join(name)).unwrap();
        assert!(page("program.1").contains("rdb"));
        assert!(page("program-sweep.1").contains("fresh"));
    }

    #[test]
    fn shells_complete_the_options() {
        let folder = tempfile::tempdir().unwrap();
        for (shell, file) in [("bash", "program.bash"), ("zsh", "_program"), ("fish", "program.fish")] {
            write(command(), shell, folder.path()).unwrap();
            assert!(std::fs::read_to_string(folder.path().join(file)).unwrap().contains("fresh"), "{shell}");
        }
        assert_eq!(write(command(), "abacus", folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
