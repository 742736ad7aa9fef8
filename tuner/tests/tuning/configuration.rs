//! Configuration files, and modes without a replay.

use mneme_system::exit;
use serde_json::{Value, json};

use crate::home::Home;

#[test]
fn a_file_says_what_a_command_line_can() {
    let home = Home::new();
    let text = "record_database: 5.json\nrecord_id: 1\nspace_preset: launch\nlaunch_dim: x\nlaunch_safety: aggressive\npasses:\n  - default<O1>\n  - \
                default<O2>\nfixed_codegen_opt: 3\nsampler: exhaustive\niterations: 2\nwarmup: 1\nresults_dir: here\n";
    std::fs::write(home.path("config.yml"), text).unwrap();
    home.tune(&["--config", "config.yml", "--metric", "max"], 0);
    let config = home.json("here/config.json");
    assert_eq!(
        (&config["metric"], &config["iterations"], &config["sampler"]),
        (&json!("max"), &json!(2), &json!("exhaustive"))
    );
    assert_eq!(home.trials("here").len(), 20);
    // The resolved options are a configuration file with the same meaning.
    home.tune(&["--config", "here/config.json", "--results-dir", "again"], 0);
    let mut again = home.json("again/config.json");
    again["results_dir"] = "here".into();
    assert_eq!(again, config);
    std::fs::write(home.path("wrong.yml"), text.replace("sampler", "smapler")).unwrap();
    let (_, stderr) = home.run(&["--config", "wrong.yml"], exit::BAD_USAGE);
    assert!(stderr.contains("wrong.yml") && stderr.contains("'smapler'"), "{stderr}");
    let (_, stderr) = home.run(&["--config", "none.yml"], exit::NO_INPUT);
    assert!(stderr.contains("none.yml cannot be read"), "{stderr}");
}

#[test]
fn a_resolved_configuration_can_be_written_without_a_recording() {
    let home = Home::new();
    home.tune(&["--record-database", "none.json", "--space-preset", "full", "--dump-config", "out.yml"], 0);
    let text = std::fs::read_to_string(home.path("out.yml")).unwrap();
    for line in [
        "record_database: none.json", "launch_bounds_space: on-off", "min_blocks_per_sm_range: 1:8",
        "codegen_opt_range: 1:3",
    ] {
        assert!(text.contains(line), "{line} is missing from\n{text}");
    }
    assert!(!text.contains("results_dir"), "each session has another folder");
}

#[test]
fn a_dry_run_prints_baseline_and_space() {
    let home = Home::new();
    std::fs::remove_file(home.path("mneme-replay")).unwrap();
    let text = home.tune(&["--dry-run", "--space-preset", "compiler"], 0);
    assert!(text.starts_with("Baseline configuration:\n{") && text.contains("Search space:\n{"), "{text}");
    assert!(!home.path("mneme-tune-results").exists());
}

#[test]
fn a_baseline_alone() {
    let home = Home::new();
    let output = home.tune(&["--baseline-only", "--results-dir", "here"], 0);
    assert!(output.contains("Baseline mean exec_time = 997 ns") && !output.contains("BEST"), "{output}");
    assert_eq!(home.json("here/summary.json")["status"], "baseline_only");
    assert!(home.trials("here").is_empty() && home.path("here/baseline.json").exists());
    // A session can continue from there.
    home.tune(&["--resume", "--results-dir", "here", "--space-preset", "quick"], 0);
    assert!(!home.trials("here").is_empty());
}

#[test]
fn what_makes_no_sense_starts_nothing() {
    let home = Home::new();
    for (arguments, expected) in [
        (&["--sampler", "tpe"][..], "needs --trials"),
        (&["--space-module", "a.py:B", "--launch-dim", "x"], "--launch-dim changes the built-in search space"),
        (&["--resume", "--record-database", "5.json"], "--resume needs --results-dir"),
        (&["--optuna-storage", "s.log"], "--optuna-storage needs one of Optuna's samplers"),
    ] {
        let (stdout, stderr) = home.run(arguments, 64);
        assert!(
            stderr.contains(expected) && stderr.lines().count() == 1 && stdout.is_empty(),
            "{arguments:?}: {stderr}"
        );
    }
    let mut bare = home.command(&[]);
    let output = bare.output().unwrap();
    assert_eq!(output.status.code(), Some(exit::NO_INPUT));
    assert!(String::from_utf8_lossy(&output.stderr).contains("recording is missing"));
    assert!(!home.path("mneme-tune-results").exists());
}

#[test]
fn pipelines_come_from_files_too() {
    let home = Home::new();
    std::fs::write(home.path("pipelines"), "# what to try\nsecond\n\n  third(a,b)  \n").unwrap();
    let space: Value =
        serde_json::from_str(&home.tune(&["--print-space", "--pipeline-file", "pipelines", "--passes", "first"], 0))
            .unwrap();
    assert_eq!(space["parameters"]["passes"], json!(["first", "second", "third(a,b)"]));
    let space: Value = serde_json::from_str(&home.tune(&["--print-space", "--fixed-passes", "only"], 0)).unwrap();
    assert_eq!(space["parameters"]["passes"], json!(["only"]));
    std::fs::write(home.path("empty"), "# nothing\n").unwrap();
    assert!(home.run(&["--pipeline-file", "empty"], exit::BAD_USAGE).1.contains("empty"));
}

#[test]
fn a_kernel_that_demands_its_block_keeps_it() {
    let home = Home::new();
    let blocks = |fixes: &str, options: &[&str]| {
        let options = [&["--print-space", "-rdb", "5.json", "--space-preset", "launch"], options].concat();
        let printed = home.command(&options).env("STUB_FIXES_BLOCK", fixes).output().unwrap();
        let space: Value = serde_json::from_slice(&printed.stdout).unwrap();
        space["parameters"]["block_shape"].as_array().unwrap().len()
    };
    assert_eq!((blocks("true", &[]), blocks("true", &["--launch-dim", "x"]), blocks("false", &[])), (1, 7, 7));
}

#[test]
fn launch_bounds_and_specialisation_are_dimensions_on_request() {
    let home = Home::new();
    let printed = |more: &[&str]| -> Value {
        let arguments =
            [&["--print-space", "--space-preset", "compiler", "--passes", "a", "--fixed-codegen-opt", "3"], more]
                .concat();
        serde_json::from_str(&home.tune(&arguments, 0)).unwrap()
    };
    assert_eq!(printed(&[])["size"], 1);
    assert_eq!(
        printed(&["--specialize-space", "on-off", "--specialize-dims-space", "on"])["parameters"]["specialize_dims"],
        json!([true])
    );
    let bounds = printed(&[
        "--launch-bounds-space", "on-off", "--min-blocks-per-sm-range", "1:5:2", "--max-threads-policy",
        "powers-of-two",
    ]);
    assert_eq!(bounds["parameters"]["min_blocks_per_sm"], json!([1, 3, 5]));
    assert_eq!(bounds["size"], 1 + 3 * 11);
    let fixed = printed(&[
        "--launch-bounds-space", "on", "--fixed-min-blocks-per-sm", "4", "--max-threads-range", "128:512:128",
    ]);
    assert_eq!((&fixed["parameters"]["max_threads"], &fixed["size"]), (&json!([128, 256, 384, 512]), &json!(4)));
}

#[test]
fn what_proteus_is_given_goes_where_it_is_wanted() {
    let home = Home::new();
    let with = |folder: &str, more: &[&str]| {
        home.tune(&[&["--space-preset", "launch", "--results-dir", folder], more].concat(), 0)
    };
    with("a", &["--proteus-output", "tuned.json"]);
    assert!(home.json("tuned.json")["_Z5kv"].is_object() && !home.path("a/proteus_tuned_kernels.json").exists());
    with("b", &["--no-proteus-output"]);
    assert!(!home.path("b/proteus_tuned_kernels.json").exists());
    with("c", &["--codegen-method", "rtc"]);
    assert_eq!(home.json("c/proteus_tuned_kernels.json")["_Z5kv"]["CodeGen"], "rtc");
}
