//! The script that reproduces a fault with LLVM's or NVIDIA's own programs.

use std::path::Path;

use mneme_builds::spec::FAULT;
use mneme_model::configuration::Configuration;

use super::super::experiments::ExperimentRunner;
use super::super::finding::{BisectFinding, Files, Verdict};
use super::given::{BAD, GIVEN, GOOD, LaterStage, PTX};
use super::save;
use crate::cli::FailureKind;
use crate::error::Fatal;
use crate::report::artifacts::unwritable;

pub const NAME: &str = "reproduce.sh";

/// Writes the script. `stage` says how to run the faulty stage after the pipeline, if there is such a stage.
pub fn write(
    runner: &ExperimentRunner<'_>,
    failing: &Configuration,
    finding: &BisectFinding,
    files: &Files,
    stage: Option<&LaterStage>,
) -> Result<(), Fatal> {
    let options: String =
        failing.llvm_options.iter().map(|option| format!(" '{}'", option.replace('\'', "'\\''"))).collect();
    let own = failing.llvm.unwrap_or(runner.context.llvm);
    let version = runner.context.programs.of(own)?.llvm()?;
    let major = version.split('.').next().unwrap_or_default();
    let gives_up = finding.failing == FailureKind::Crash && stage.is_some();
    let body = if finding.pipeline.contains(FAULT) && is_planted(finding, files) && !gives_up {
        let show = match stage {
            None => compare("before.ll", "after.ll"),
            Some(stage) if runner.context.is_cpu() => later(runner, finding, stage, major, &options),
            Some(stage) if finding.verdict == Verdict::BackEnd && stage.ptx.is_some() => compare(GOOD, BAD),
            Some(_) => String::new(),
        };
        format!(
            "# {FAULT} is a fault that Mneme plants on request; the programs of LLVM and NVIDIA do not have it.\n{show}"
        )
    } else {
        match stage {
            Some(stage) => later(runner, finding, stage, major, &options),
            None => pass(finding, files, major, &options),
        }
    };
    let summary = finding.summary.replace('\n', " ");
    let script = files.folder.join(NAME);
    save(
        &files.folder,
        NAME,
        &format!("#!/bin/sh\n# LLVM {version}. {summary}\nset -eu\ncd \"$(dirname \"$0\")\"\n{body}"),
    )?;
    executable(&script)
}

fn is_planted(finding: &BisectFinding, files: &Files) -> bool {
    let alone = files.opt.as_ref().is_some_and(|passes| passes.contains(FAULT));
    alone || finding.pass.as_ref().is_some_and(|culprit| culprit.pass.pass == FAULT)
}

fn compare(one: &str, other: &str) -> String {
    format!("exec diff -u {one} {other}\n")
}

/// Commands that run the pass alone.
fn pass(finding: &BisectFinding, files: &Files, major: &str, options: &str) -> String {
    match &files.opt {
        Some(passes) if finding.failing == FailureKind::Crash => {
            format!(
                "# That pass alone crashes on before.ll.\nexec ${{OPT:-opt-{major}}}{options} -S -passes='{passes}' before.ll -o /dev/null\n"
            )
        }
        Some(passes) => format!(
            "# Runs that pass alone on before.ll. What it makes of {} is to blame.\n${{OPT:-opt-{major}}}{options} -S -passes='{passes}' before.ll -o again.ll\n",
            if files.function.is_empty() { "it" } else { files.function.as_str() },
        ),
        None => format!(
            "# No pass of LLVM's alone makes after.ll of before.ll: in its pipeline it has analyses at hand that it would not have alone, or it\n\
             # is none of LLVM's.\n{}",
            compare("before.ll", "after.ll")
        ),
    }
}

/// Commands that run code generation or the assembler at levels with and without the fault.
fn later(
    runner: &ExperimentRunner<'_>,
    finding: &BisectFinding,
    stage: &LaterStage,
    major: &str,
    llvm_options: &str,
) -> String {
    if runner.context.is_cpu() {
        let database = &runner.context.recorded.database;
        let database = std::path::absolute(database).unwrap_or_else(|_| database.clone());
        // Mneme lowers IR for a processor itself before LLVM's back end sees it.
        return format!(
            "# The CPU device makes code for this machine's processor of {GIVEN} in its own way, so that no program of LLVM's alone repeats it.\n\
             exec mneme-replay -rdb '{}' -rid {} --device cpu --ir {GIVEN} --codegen-opt {} ''\n",
            database.display(),
            runner.context.recorded.id(),
            stage.bad.codegen
        );
    }
    let crash = finding.failing == FailureKind::Crash;
    let word = |directive: &str| {
        let ptx = stage.ptx.as_deref().unwrap_or_default();
        ptx.lines()
            .find_map(|line| line.strip_prefix(directive))
            .map(|rest| rest.trim().split(',').next().unwrap_or_default().to_owned())
    };
    let target = word(".target").unwrap_or_else(|| {
        let recorded = &runner.context.recorded.kernel.ours.ir_arch;
        if recorded.starts_with("sm_") { recorded.clone() } else { "sm_90".into() }
    });
    if finding.verdict == Verdict::Assembler {
        let run = |level: u8, output: &str| format!("${{PTXAS:-ptxas}} -arch={target} -O{level} {PTX} -o {output}\n");
        if crash {
            return run(stage.bad.assembler, "/dev/null");
        }
        return format!(
            "# The same PTX at a level that is right and at one that is not; nvdisasm shows the machine code.\n{}{}",
            run(stage.good.assembler, "good.cubin"),
            run(stage.bad.assembler, "bad.cubin")
        );
    }
    let features =
        word(".version").map_or_else(String::new, |version| format!(" -mattr=+ptx{}", version.replace('.', "")));
    let run = |options: &str, output: &str| {
        format!("${{LLC:-llc-{major}}}{llvm_options} -mcpu={target}{features} {options} {GIVEN} -o {output}\n")
    };
    let (good, bad) = (stage.good.codegen, stage.bad.codegen);
    let pair = match &finding.codegen_pass {
        _ if crash => return run(&format!("-O{bad}"), "/dev/null"),
        Some(culprit) => {
            let limited = |limit: u64| format!("-O{bad} -opt-bisect-limit={limit}");
            [
                run(&limited(culprit.from.saturating_sub(1)), "good-again.ptx"),
                run(&limited(culprit.pass.number), "bad-again.ptx"),
            ]
        }
        None => [run(&format!("-O{good}"), "good-again.ptx"), run(&format!("-O{bad}"), "bad-again.ptx")],
    };
    format!(
        "# Code generation without the fault and with it; {GOOD} and {BAD} are what Mneme got.\n{}{}",
        pair[0], pair[1]
    )
}

fn executable(script: &Path) -> Result<(), Fatal> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(script, mode).map_err(|error| unwritable(script, &error))
}
