//! Commands and code that reproduce a configuration.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;

use crate::results::proteus;

/// The parts of a `mneme replay` command besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct ReplayedWinner<'a> {
    /// `<static-hash>.json` and dynamic hash.
    pub database: &'a str,
    pub instance: &'a str,
    /// The recorded configuration, if it is known. The command leaves out its values.
    pub recorded: Option<&'a Configuration>,
    /// Further options, verbatim.
    pub options: Vec<String>,
}

/// The command that replays a configuration, for a POSIX shell.
pub fn replay_command(winner: &ReplayedWinner, configuration: &Configuration) -> String {
    let mut words: Vec<String> =
        ["mneme", "replay", "-rdb", winner.database, "-rid", winner.instance].map(Into::into).into();
    words.extend(configuration.options(winner.recorded));
    // The configuration overrides the options of the session. A tolerance for one buffer stays.
    let own: Vec<&str> = words.iter().filter_map(|word| word.split_once('=')).map(|(name, _)| name).collect();
    let is_overridden = |option: &String| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        own.contains(&name) && !(name == "--tolerance" && value.contains('='))
    };
    let options: Vec<String> = winner.options.iter().filter(|option| !is_overridden(option)).cloned().collect();
    words.extend(options);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The command that runs an application with the winner of a results folder.
pub fn apply_command(results: &Path) -> String {
    format!("mneme apply --tuned {} -- ./application", quoted(&results.display().to_string()))
}

/// The winner's launch as source code; `None` if it is the recorded launch.
pub fn source(recorded: &Configuration, best: &Configuration) -> Option<String> {
    let is_same = (recorded.grid, recorded.block, recorded.shared_mem) == (best.grid, best.block, best.shared_mem);
    let dim3 = |dim: Dim3| match dim.as_array() {
        [x, 1, 1] => format!("({x})"),
        [x, y, 1] => format!("({x}, {y})"),
        [x, y, z] => format!("({x}, {y}, {z})"),
    };
    let launch = |it: &Configuration| {
        let memory =
            if it.shared_mem > 0 { format!(", {} bytes of shared memory", it.shared_mem) } else { String::new() };
        (dim3(it.grid), dim3(it.block), memory)
    };
    let ((grid, block, memory), (old_grid, old_block, old_memory)) = (launch(best), launch(recorded));
    (!is_same).then(|| {
        format!("dim3 block{block}, grid{grid};{memory}  // recorded: block{old_block}, grid{old_grid}{old_memory}")
    })
}

/// How an application built with Proteus uses the best from `file`, and what its author has to change.
pub fn proteus_usage(file: &Path, recorded: Option<&Configuration>, best: &Configuration) -> Usage {
    let launch = recorded.is_none_or(|recorded| {
        (recorded.grid, recorded.block, recorded.shared_mem) != (best.grid, best.block, best.shared_mem)
    });
    let launch = launch.then(|| {
        let memory = match best.shared_mem {
            0 => String::new(),
            bytes => format!(" and {bytes} bytes of dynamic shared memory"),
        };
        let unless = if best.shared_mem == 0 { "unless your Proteus reads GridDim and BlockDim, " } else { "" };
        format!(
            "{unless}change the launch in your application to blocks of {}, a grid of {}{memory}",
            best.block, best.grid
        )
    });
    let lost = proteus::lost(best, recorded);
    let lost = (!lost.is_empty()).then(|| format!("the file has no setting for {}", lost.join(", ")));
    let remarks: Vec<String> = launch.into_iter().chain(lost).collect();
    Usage {
        command: format!("PROTEUS_TUNED_KERNELS={} ./application", quoted(&file.display().to_string())),
        remark: (!remarks.is_empty()).then(|| format!("Proteus: {}", remarks.join("; "))),
    }
}

/// How to build an application with Proteus so that it reads `file`: `specializable` says for each argument whether its
/// value may be folded into the code.
pub fn proteus_instructions(file: &Path, kernel: &str, specializable: &[bool]) -> String {
    let numbers = (1..).zip(specializable).filter(|(_, may)| **may).map(|(number, _)| format!(", {number}"));
    let arguments: String = numbers.collect();
    let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
    let file = quoted(&file.display().to_string());
    format!(
        "Add this attribute to the kernel {kernel}, and build the application with Proteus:\n\n  \
         __attribute__((annotate(\"jit\"{arguments})))\n\nThen start the application with this variable:\n\n  \
         export PROTEUS_TUNED_KERNELS={file}\n"
    )
}

/// A command, and a remark on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub command: String,
    /// Without a full stop.
    pub remark: Option<String>,
}

/// Quotes a word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=,+@%-".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::tolerance::Tolerance;

    #[test]
    fn a_command_has_the_configuration_and_what_the_session_adds() {
        let recorded = Configuration::recorded(Dim3::new(40, 2, 1), Dim3::new(256, 1, 1), 0);
        let options = ["--rtol=0.1", "--iterations=9", "--tolerance=f32:1", "--tolerance=argument:1=exact"];
        let winner = ReplayedWinner {
            database: "it's/7.json",
            instance: "9",
            recorded: Some(&recorded),
            options: options.map(String::from).into(),
        };
        let of_session = "--rtol=0.1 --iterations=9 --tolerance=f32:1 --tolerance=argument:1=exact";
        assert_eq!(
            replay_command(&winner, &recorded),
            format!("mneme replay -rdb 'it'\\''s/7.json' -rid 9 {of_session}")
        );
        let best = Configuration {
            iterations: Some(3),
            tolerance: Some(Tolerance::default()),
            passes: "default<O1>".into(),
            ..recorded.clone()
        };
        assert_eq!(
            replay_command(&ReplayedWinner { database: "7.json", ..winner }, &best),
            "mneme replay -rdb 7.json -rid 9 --iterations=3 --tolerance=u8:0e0:absolute:none 'default<O1>' --rtol=0.1 \
             --tolerance=argument:1=exact"
        );
    }

    #[test]
    fn instructions_number_arguments_from_one() {
        let text = proteus_instructions(Path::new("/a b/p.json"), "_Z1kv", &[false, true, true]);
        assert!(
            text.contains("annotate(\"jit\", 2, 3)") && text.contains("PROTEUS_TUNED_KERNELS='/a b/p.json'"),
            "{text}"
        );
    }

    #[test]
    fn proteus_is_not_said_to_change_the_launch() {
        let recorded = Configuration::recorded(Dim3::new(40, 1, 1), Dim3::new(256, 1, 1), 0);
        let same = proteus_usage(Path::new("my results/p.json"), Some(&recorded), &recorded);
        assert_eq!(
            same,
            Usage { command: "PROTEUS_TUNED_KERNELS='my results/p.json' ./application".into(), remark: None }
        );
        let best = Configuration::recorded(Dim3::new(80, 1, 1), Dim3::new(128, 1, 1), 512);
        let remark = proteus_usage(Path::new("p.json"), Some(&recorded), &best).remark.unwrap();
        assert!(
            remark.contains("blocks of 128x1x1, a grid of 80x1x1 and 512 bytes of dynamic shared memory"),
            "{remark}"
        );
        let best = Configuration { fast_math: true, ..recorded.clone() };
        let remark = proteus_usage(Path::new("p.json"), Some(&recorded), &best).remark.unwrap();
        assert!(remark.contains("fast_math") && !remark.contains("launch"), "{remark}");
        let same = Configuration { ptx_opt: Some(3), ..recorded };
        assert_eq!(proteus_usage(Path::new("p.json"), Some(&same), &same).remark, None, "it changes nothing");
    }
}
