//! Tests of verdicts on builds that go wrong at a known stage, with any number of passes.

use std::rc::Rc;

use mneme_builds::{Built, ProbeResult};
use mneme_model::launch::Dim3;
use mneme_model::result::{ReplayResult, ReplayStatus};
use proptest::prelude::*;

use super::super::rate::FailureRate;
use super::*;

/// The fault. A fault of code generation or the assembler may need a pass of the pipeline to run first; 0 means none.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Pass(u64),
    CodegenPass { needs: u64, number: u64 },
    CodegenLevel { needs: u64, level: u8 },
    AssemblerLevel { needs: u64, level: u8 },
}

/// A model compiler with this many passes.
#[derive(Clone, Copy, Debug)]
struct Compiler {
    passes: u64,
    codegen_passes: u64,
    wrong: Wrong,
    width: usize,
    /// How many of 100 runs of wrong code fail.
    percent: u64,
    /// The state of the random numbers for the runs.
    random: u64,
}

impl Compiler {
    /// Whether one of `runs` runs fails.
    fn fails(&mut self, runs: u32) -> bool {
        (0..runs).any(|_| {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % 100 < self.percent
        })
    }

    fn observation(&mut self, experiment: &Experiment) -> ExperimentOutcome {
        let Experiment { probe, configuration, .. } = experiment;
        let ran = probe.passes.unwrap_or(u64::MAX).min(self.passes);
        let generated = probe.codegen_passes.unwrap_or(u64::MAX).min(self.codegen_passes);
        let is_wrong = match self.wrong {
            Wrong::Pass(number) => ran >= number,
            Wrong::CodegenPass { needs, number } => ran >= needs && generated >= number,
            Wrong::CodegenLevel { needs, level } => ran >= needs && configuration.codegen_opt >= level,
            Wrong::AssemblerLevel { needs, level } => ran >= needs && assembler_level(configuration) >= level,
        };
        let is_wrong = is_wrong && self.fails(experiment.runs);
        let list =
            |count| (1..=count).map(|number| Invocation { number, pass: "pass".into(), unit: "unit".into() }).collect();
        let looked = ProbeResult { passes: list(ran), codegen_passes: list(generated), ..ProbeResult::default() };
        let status = if is_wrong { ReplayStatus::FailedVerification } else { ReplayStatus::Verified };
        ExperimentOutcome {
            result: ReplayResult { status, executed: true, ..ReplayResult::default() },
            outcome: Some(Rc::new(Ok((Built { looked, ..Built::default() }, Vec::new())))),
            digest: String::new(),
        }
    }

    /// The finding with all stages on.
    fn found(mut self) -> BisectFinding {
        let mut experiment = Experiment::of(&Configuration::recorded(Dim3::default(), Dim3::default(), 0));
        experiment.runs = 400;
        let failed = self.observation(&experiment);
        let criterion = Criterion { failing: FailureKind::Wrong, bound: f64::INFINITY };
        let mut finding = BisectFinding::unclear(FailureKind::Wrong, "default<O3>", "default<O0>");
        assert_eq!(criterion.judge(&failed), Judgement::Bad);
        let (rate, _) = FailureRate::of(&mut self, &criterion, &experiment).unwrap_or_else(|_| panic!("no bench"));
        let Some(runs) = rate.needed(3, 400) else { return finding };
        experiment.runs = runs;
        Stages::new(&mut self, criterion, experiment)
            .find(&failed, &mut finding)
            .unwrap_or_else(|_| panic!("no bench fails here"));
        finding
    }
}

impl RunExperiments for Compiler {
    fn width(&self) -> usize {
        self.width
    }

    fn assembles(&self) -> bool {
        true
    }

    fn say(&self, _: &str) {}

    fn observe(&mut self, experiments: Vec<Experiment>) -> Result<Vec<ExperimentOutcome>, Fatal> {
        Ok(experiments.iter().map(|experiment| self.observation(experiment)).collect())
    }
}

/// One of `count` passes, or 0 for none.
fn needed(count: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..=count]
}

fn wrong(passes: u64, codegen_passes: u64) -> impl Strategy<Value = Wrong> {
    prop_oneof![
        (1..=passes).prop_map(Wrong::Pass),
        (needed(passes), 1..=codegen_passes).prop_map(|(needs, number)| Wrong::CodegenPass { needs, number }),
        (needed(passes), 1..=3_u8).prop_map(|(needs, level)| Wrong::CodegenLevel { needs, level }),
        (needed(passes), 1..=3_u8).prop_map(|(needs, level)| Wrong::AssemblerLevel { needs, level }),
    ]
}

fn compiler() -> impl Strategy<Value = Compiler> {
    (1..600_u64, 1..80_u64, 1..20_usize).prop_flat_map(|(passes, codegen_passes, width)| {
        wrong(passes, codegen_passes).prop_map(move |wrong| Compiler {
            passes,
            codegen_passes,
            wrong,
            width,
            percent: 100,
            random: 0,
        })
    })
}

proptest! {
    /// If only some runs fail, the search finds the right pass or reports no pass.
    #[test]
    fn what_fails_now_and_then_is_no_other_pass(compiler in compiler(), percent in 5..100_u64, random: u64) {
        let Wrong::Pass(number) = compiler.wrong else { return Ok(()) };
        let finding = Compiler { percent, random, ..compiler }.found();
        if finding.verdict != Verdict::Unclear {
            let pass = finding.pass.as_ref().map(|culprit| (culprit.from, culprit.pass.number));
            prop_assert_eq!((finding.verdict, pass), (Verdict::IrPass, Some((number, number))));
        }
    }

    #[test]
    fn the_stage_that_is_wrong_is_found_and_where_in_it(compiler in compiler()) {
        let finding = compiler.found();
        let pass = finding.pass.as_ref().map(|culprit| (culprit.from, culprit.pass.number));
        let exposed = |needs: u64| (needs > 0).then_some((needs, needs));
        let level = finding.level.as_ref().map(|level| (level.field, level.good, level.bad));
        match compiler.wrong {
            Wrong::Pass(number) => {
                prop_assert_eq!((finding.verdict, pass), (Verdict::IrPass, Some((number, number))));
            }
            Wrong::CodegenPass { needs, number } => {
                prop_assert_eq!((finding.verdict, pass), (Verdict::BackEnd, exposed(needs)));
                prop_assert_eq!(finding.codegen_pass.map(|culprit| culprit.pass.number), Some(number));
            }
            Wrong::CodegenLevel { needs, level: bad } => {
                prop_assert_eq!((finding.verdict, pass), (Verdict::BackEnd, exposed(needs)));
                prop_assert_eq!((finding.codegen_pass, level), (None, Some(("codegen_opt", bad - 1, bad))));
            }
            Wrong::AssemblerLevel { needs, level: bad } => {
                prop_assert_eq!((finding.verdict, pass), (Verdict::Assembler, exposed(needs)));
                prop_assert_eq!(level, Some(("ptx_opt", bad - 1, bad)));
            }
        }
        prop_assert_eq!(finding.given.is_some(), matches!(finding.verdict, Verdict::BackEnd | Verdict::Assembler));
    }
}
