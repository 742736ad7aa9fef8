//! Commands and code that reproduce a configuration.

use std::path::Path;

use mneme_model::configuration::{CacheState, Configuration, Specialize};
use mneme_model::launch::Dim3;
use mneme_model::tolerance::Tolerance;

/// The parts of a `mneme replay` command besides the configuration.
#[derive(Clone, Debug, Default)]
pub struct ReplayedWinner<'a> {
    /// `<static-hash>.json` and dynamic hash.
    pub database: &'a str,
    pub instance: &'a str,
    /// The recorded launch. The command leaves out dimensions that equal its own.
    pub recorded: Option<&'a Configuration>,
    /// Further options, verbatim.
    pub options: Vec<String>,
}

/// The command that replays a configuration, for a POSIX shell.
pub fn replay_command(winner: &ReplayedWinner, configuration: &Configuration) -> String {
    let it = configuration;
    let mut words: Vec<String> =
        ["mneme", "replay", "-rdb", winner.database, "-rid", winner.instance].map(Into::into).into();
    for (axis, name) in ["x", "y", "z"].iter().enumerate() {
        let as_recorded = |of: fn(&Configuration) -> u32| winner.recorded.map(of) == Some(of(it));
        let grid: [fn(&Configuration) -> u32; 3] = [|it| it.grid.x, |it| it.grid.y, |it| it.grid.z];
        let block: [fn(&Configuration) -> u32; 3] = [|it| it.block.x, |it| it.block.y, |it| it.block.z];
        for (kind, of) in [("gid", grid[axis]), ("bid", block[axis])] {
            if !as_recorded(of) {
                words.extend([format!("-{kind}{name}"), of(it).to_string()]);
            }
        }
    }
    if winner.recorded.map(|recorded| recorded.shared_mem) != Some(it.shared_mem) {
        words.push(format!("--shared-mem={}", it.shared_mem));
    }
    match &it.specialize {
        Specialize::None => {}
        Specialize::All => words.push("--specialize".into()),
        Specialize::Arguments(list) => {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            words.push(format!("--specialize={}", list.join(",")));
        }
    }
    for (differs, option) in [
        (it.specialize_dims, "--specialize-dims".to_owned()),
        (it.set_launch_bounds, "--set-launch-bounds".to_owned()),
        (it.set_launch_bounds && it.max_threads > Some(0), format!("--max-threads={}", it.max_threads.unwrap_or(0))),
        (it.set_launch_bounds, format!("--min-blocks-per-sm={}", it.min_blocks_per_sm)),
        (!it.original, format!("--codegen-opt={}", it.codegen_opt)),
        (it.ptx_opt.is_some(), format!("--ptx-opt={}", it.ptx_opt.unwrap_or_default())),
        (it.ptxas_options.as_ref().is_some_and(Vec::is_empty), "--ptxas-option=".to_owned()),
        (it.maxnreg > 0, format!("--maxnreg={}", it.maxnreg)),
        (it.llvm.is_some(), format!("--llvm={}", it.llvm.unwrap_or_default())),
        (it.facts, "--facts".to_owned()),
        (it.lift, "--lift".to_owned()),
        (it.fast_math, "--fast-math".to_owned()),
        (!it.prune, "--no-prune".to_owned()),
        (it.internalize, "--internalize".to_owned()),
        (it.original, "--original".to_owned()),
        (it.cache == CacheState::Cold, "--cold-cache".to_owned()),
        (it.iterations.is_some(), format!("--iterations={}", it.iterations.unwrap_or_default())),
        (it.warmup.is_some(), format!("--warmup={}", it.warmup.unwrap_or_default())),
        (it.timeout_s.is_some(), format!("--timeout={}", it.timeout_s.unwrap_or_default())),
    ] {
        if differs {
            words.push(option);
        }
    }
    words.extend(it.ptxas_options.iter().flatten().map(|option| format!("--ptxas-option={option}")));
    words.extend(it.llvm_options.iter().map(|option| format!("--llvm-option={option}")));
    // The configuration overrides the options of the session.
    let said = |option: &String| {
        let name = option.split('=').next().unwrap_or_default();
        (it.tolerance.is_some() && option.strip_prefix("--tolerance=").is_some_and(|rule| !rule.contains('=')))
            || (it.iterations.is_some() && name == "--iterations")
            || (it.warmup.is_some() && name == "--warmup")
            || (it.timeout_s.is_some() && name == "--timeout")
    };
    words.extend(winner.options.iter().filter(|option| !said(option)).cloned());
    words.extend(it.tolerance.iter().map(|tolerance| format!("--tolerance={}", option_of(tolerance))));
    // A named pipeline makes `mneme replay` lift PTX. The recording's own pipeline is the default.
    let as_recorded = winner.recorded.is_some_and(|recorded| recorded.passes == it.passes) && !it.lift;
    if !it.original && !as_recorded {
        words.push(it.passes.clone());
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A tolerance for all buffers, in the syntax of `--tolerance`.
fn option_of(tolerance: &Tolerance) -> String {
    if tolerance.is_exact() {
        return "exact".into();
    }
    let Tolerance { dtype, threshold, kind, norm, .. } = tolerance;
    format!("{}:{threshold:e}:{}:{}", dtype.name(), kind.name(), norm.name())
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
    Usage {
        command: format!("PROTEUS_TUNED_KERNELS={} ./application", quoted(&file.display().to_string())),
        remark: launch.then(|| {
            let memory =
                if best.shared_mem > 0 { format!(" and {} bytes of dynamic shared memory", best.shared_mem) } else { String::new() };
            format!(
                "Proteus takes only compile options from the file; change the launch in your application to blocks of {}, a grid of {}{memory}",
                best.block, best.grid
            )
        }),
    }
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

    #[test]
    fn what_is_as_recorded_goes_without_saying() {
        let recorded = Configuration::recorded(Dim3::new(40, 2, 1), Dim3::new(256, 1, 1), 0);
        let winner = ReplayedWinner {
            database: "it's/7.json",
            instance: "9",
            recorded: Some(&recorded),
            options: vec!["--rtol=0.1".into()],
        };
        assert_eq!(
            replay_command(&winner, &recorded),
            "mneme replay -rdb 'it'\\''s/7.json' -rid 9 --codegen-opt=3 --rtol=0.1"
        );
        let mut best = recorded.clone();
        (best.block.x, best.grid.x) = (128, 80);
        (best.set_launch_bounds, best.max_threads, best.min_blocks_per_sm) = (true, Some(128), 2);
        best.specialize = Specialize::Arguments(vec![0, 2]);
        best.passes = "default<O1>".into();
        best.llvm_options = vec!["-unroll-count=4".into()];
        best.llvm = Some(22);
        (best.internalize, best.ptx_opt, best.ptxas_options) = (true, Some(1), Some(vec!["--fmad=false".into()]));
        assert_eq!(
            replay_command(&ReplayedWinner { database: "7.json", instance: "9", ..winner }, &best),
            "mneme replay -rdb 7.json -rid 9 -gidx 80 -bidx 128 --specialize=0,2 --set-launch-bounds --max-threads=128 \
             --min-blocks-per-sm=2 --codegen-opt=3 --ptx-opt=1 --llvm=22 --internalize --ptxas-option=--fmad=false --llvm-option=-unroll-count=4 --rtol=0.1 'default<O1>'"
        );
    }

    #[test]
    fn every_field_of_a_configuration_is_in_the_command() {
        let recorded = Configuration::recorded(Dim3::new(40, 1, 1), Dim3::new(256, 1, 1), 0);
        let recorded = Configuration { set_launch_bounds: true, max_threads: Some(64), ..recorded };
        let command = |it: &Configuration| {
            let winner = ReplayedWinner { recorded: Some(&recorded), ..ReplayedWinner::default() };
            replay_command(&winner, it)
        };
        // This object names the fields that serialisation omits at their defaults. The test finds the others itself.
        let mut other = serde_json::json!({
            "facts": true, "maxnreg": 32, "ptx_opt": 1, "ptxas_options": ["-v"], "fast_math": true, "llvm": 22,
            "llvm_options": ["-x"], "iterations": 9, "warmup": 8, "cache": "cold", "timeout_s": 2.5, "lift": true,
            "original": true, "specialize": true, "passes": "default<O1>",
            "tolerance": {"dtype": "f32", "threshold": 1e-5, "kind": "relative"},
        });
        let serde_json::Value::Object(plain) = serde_json::to_value(&recorded).unwrap() else { unreachable!() };
        for (name, value) in plain.into_iter().filter(|(name, _)| name != "codegen_method" && name != "passes") {
            let changed = match &value {
                serde_json::Value::Bool(value) => serde_json::json!(!value),
                serde_json::Value::Number(value) => serde_json::json!(value.as_u64().unwrap() + 1),
                serde_json::Value::Object(_) => serde_json::json!({"x": 3, "y": 2}),
                other => panic!("{name} is {other}"),
            };
            if other.get(&name).is_none() {
                other[name] = changed;
            }
        }
        for (name, value) in other.as_object().unwrap() {
            let mut changed = serde_json::to_value(&recorded).unwrap();
            changed[name] = value.clone();
            let changed: Configuration = serde_json::from_value(changed).unwrap();
            assert_ne!(command(&changed), command(&recorded), "{name}");
        }
        let rule = Tolerance { dtype: mneme_model::tolerance::DataType::F32, threshold: 1e-5, ..Tolerance::default() };
        let measured = Configuration { tolerance: Some(rule), timeout_s: Some(2.5), ..recorded.clone() };
        let words = command(&measured);
        assert!(words.contains("--timeout=2.5") && words.contains("--tolerance=f32:1e-5:absolute:none"), "{words}");
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
            remark.ends_with("blocks of 128x1x1, a grid of 80x1x1 and 512 bytes of dynamic shared memory"),
            "{remark}"
        );
    }

    #[test]
    fn a_launch_that_is_not_known_is_said_whole() {
        let best = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(8, 1, 1), 16);
        let command =
            replay_command(&ReplayedWinner { database: "a", instance: "b", ..ReplayedWinner::default() }, &best);
        assert_eq!(
            command,
            "mneme replay -rdb a -rid b -gidx 1 -bidx 8 -gidy 1 -bidy 1 -gidz 1 -bidz 1 --shared-mem=16 --codegen-opt=3 'default<O3>'"
        );
    }
}
