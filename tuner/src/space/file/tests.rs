//! Tests of space files.

use std::path::PathBuf;

use mneme_model::launch::Dim3;

use super::*;
use crate::sampler::{SamplerKind, SamplerSettings};
use crate::search::{Next, Search};
use crate::space::walk::walk;

fn surroundings() -> Surroundings {
    let recorded = Recorded {
        grid: Dim3::new(40_000, 1, 1),
        block: Dim3::new(256, 1, 1),
        shared_mem: 16,
        compiled: None,
        processor: None,
    };
    Surroundings { recorded, arguments: vec![json!(0x1000), json!(10_240_000)], device: DeviceLimits::default() }
}

fn space(text: &str) -> Result<FileSpace, FileError> {
    let path = Path::new("space.yaml");
    let document = Document::parse(text, false).map_err(|what| FileError::new(path, "", what))?;
    FileSpace::new(path, document, &surroundings())
}

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("spaces");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The first `count` candidates of a random search.
fn some(space: FileSpace, count: usize) -> Vec<Configuration> {
    let sampler =
        SamplerKind::Random.build(&space, &SamplerSettings { seed: 1, trials: Some(count), start: None }).unwrap();
    let mut search = Search::new(Box::new(space), sampler);
    let candidates = std::iter::from_fn(|| match search.propose() {
        Next::Try(candidate) => Some(candidate.configuration),
        _ => None,
    });
    candidates.take(count).collect()
}

#[test]
fn shipped_spaces_make_valid_configurations() {
    let files = shipped();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let space = FileSpace::load(&file, &surroundings()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(space.baseline().grid.x, 40_000);
        let found = some(space, 40);
        assert_eq!(found.len(), 40, "{}", file.display());
        for configuration in found {
            assert_eq!(configuration.check(), Ok(()));
            assert_eq!(configuration.shared_mem, 16);
            let threads = configuration.block.count() as u32;
            if configuration.set_launch_bounds {
                assert!(
                    (threads..=1024).contains(&configuration.max_threads.unwrap()),
                    "{}: {configuration:?}",
                    file.display()
                );
                assert!(configuration.min_blocks_per_sm >= 1);
            }
        }
    }
}

#[test]
fn the_shipped_spaces_do_what_they_say() {
    let configurations = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("spaces").join(name);
        some(FileSpace::load(&file, &surroundings()).unwrap(), 80)
    };
    let one = configurations("one-dimension.yaml");
    assert_eq!(one.len(), 80, "16 widths, 5 pipelines");
    assert!(one.iter().all(|configuration| configuration.grid.x == 40_000 && !configuration.set_launch_bounds));
    for configuration in configurations("derived.yaml") {
        assert_eq!(u64::from(configuration.grid.x), 10_240_000u64.div_ceil(u64::from(configuration.block.x)));
        assert_eq!(configuration.max_threads, Some(configuration.block.x));
    }
    for configuration in configurations("fraction.yaml") {
        assert_eq!((configuration.max_threads.unwrap() - configuration.block.x) % 64, 0);
    }
    let conditional = configurations("conditional.yaml");
    assert!(conditional.iter().any(|configuration| !configuration.set_launch_bounds));
    // Without launch bounds there are three pipelines, specialised or not.
    assert_eq!(conditional.iter().filter(|configuration| !configuration.set_launch_bounds).count(), 6);
    let cube = configurations("unit-hypercube.yaml");
    assert!(
        cube.iter()
            .all(|configuration| configuration.grid.x as u64 <= 10_240_000u64.div_ceil(configuration.block.x.into()))
    );
    assert!(cube.iter().any(|configuration| configuration.grid.x < 1000 || configuration.block.x < 128));
}

#[test]
fn toml_is_read_as_well() {
    let text = "constraints = ['block.x != 96']\n[parameters]\n'block.x' = { type = 'int', low = 32, high = 128, step = 32 }\n\
                passes = ['default<O3>', 'default<O1>']\n[derived]\n'grid.x' = 'ceil(args[1] / block.x)'\n";
    let space = FileSpace::new(Path::new("space.toml"), Document::parse(text, true).unwrap(), &surroundings()).unwrap();
    let found: Vec<(u32, u32, String)> = walk(&space)
        .filter_map(|point| space.ground(&point).ok())
        .map(|configuration| (configuration.block.x, configuration.grid.x, configuration.passes))
        .collect();
    assert_eq!(found.len(), 6);
    assert_eq!(found[0], (32, 320_000, "default<O3>".into()));
    assert_eq!(found[5], (128, 80_000, "default<O1>".into()));
}

#[test]
fn sequences_of_passes_become_pipelines() {
    let text =
        "parameters:\n  passes: {type: pipeline, passes: [gvn, licm, 'default<O1>'], start: [gvn, licm], longest: 3}\n";
    let space = space(text).unwrap();
    let point = Point::from([("passes".to_owned(), json!(["gvn", "licm", "gvn"]))]);
    assert_eq!(space.ground(&point).unwrap().passes, "function(gvn,loop-mssa(licm),gvn)");
    assert_eq!(space.size(), Some(3 + 9 + 27));
}

#[test]
fn an_order_can_be_used_in_expressions() {
    let text = "parameters:\n  order: {type: permutation, values: [gvn, sroa, adce]}\nderived:\n  passes: '\"function(\" + join(order, \",\") + \")\"'\n";
    let found: Vec<String> =
        some(space(text).unwrap(), 10).into_iter().map(|configuration| configuration.passes).collect();
    assert_eq!(found.len(), 6);
    assert!(found.contains(&"function(adce,gvn,sroa)".to_owned()), "{found:?}");
}

#[test]
fn configurations_without_what_does_not_apply_are_one() {
    let text = "parameters:\n  set_launch_bounds: {type: bool}\n  min_blocks_per_sm: {type: int, low: 1, high: 4, when: set_launch_bounds}\n";
    let space = space(text).unwrap();
    let hashes: std::collections::BTreeSet<String> =
        walk(&space).map(|point| space.ground(&point).unwrap().hash()).collect();
    assert_eq!((walk(&space).count(), hashes.len(), space.size()), (5, 5, Some(5)));
    let wide = "parameters:\n  set_launch_bounds: {type: bool}\n  min_blocks_per_sm: {type: int, low: 1, high: 4}\n";
    let space = self::space(wide).unwrap();
    let hashes: std::collections::BTreeSet<String> =
        walk(&space).map(|point| space.ground(&point).unwrap().hash()).collect();
    assert_eq!((walk(&space).count(), hashes.len()), (8, 5));
}

#[test]
fn constraints_with_methods_and_strings_of_values_are_about_their_parameters() {
    for (constraint, valid) in [("a.abs() < 5", 4), ("`${a}` != \"2\"", 2), ("a.abs() * block.x < 60", 1)] {
        let text = format!(
            "parameters:\n  block.x: [32, 64]\n  a: [-1, 2]\nderived:\n  grid.x: 32 + a\nconstraints: ['{constraint}']\n"
        );
        let space = space(&text).unwrap();
        assert_eq!(crate::space::Feasible::of(&space).unwrap().size(), Some(valid), "{constraint}");
        assert_eq!(walk(&space).filter(|point| space.ground(point).is_ok()).count() as u64, valid, "{constraint}");
    }
}

/// A check for a kind of mistake.
macro_rules! is {
    ($pattern:pat) => {
        Some(|fault: &SpaceFault| matches!(fault, $pattern))
    };
}

#[test]
fn mistakes_are_told_by_key_and_kind() {
    use SpaceFault::*;
    type Expected = Option<fn(&SpaceFault) -> bool>;
    let block = "parameters:\n  block.x: {type: int, low: 32, high: 96, step: 32}\n";
    let cases: [(&str, &str, Expected); 26] = [
        ("parameters: {}\n", "", is!(NoParameters)),
        ("parameter:\n  a: [1]\n", "", is!(Syntax(_))),
        ("parameters:\n  a: {type: int, low: 5, high: 1}\n", "parameters.a.low", is!(Swapped { .. })),
        ("parameters:\n  a: {type: int, low: 1}\n", "parameters.a.high", is!(Missing)),
        ("parameters:\n  a: {type: int, low: 1, high: 2, stepp: 1}\n", "parameters.a.stepp", is!(UnknownKey { .. })),
        ("parameters:\n  a: {type: int, low: 1, hgih: 2}\n", "parameters.a.hgih", is!(UnknownKey { .. })),
        ("parameters:\n  a: {type: number}\n", "parameters.a.type", is!(UnknownType(_))),
        ("parameters:\n  a: {low: 1}\n", "parameters.a.type", is!(NoType)),
        ("parameters:\n  a: {type: real, low: 0, high: 1, log: true}\n", "parameters.a.low", is!(LowOfLog { .. })),
        ("parameters:\n  a: {type: int, low: 0, high: 9223372036854775807}\n", "parameters.a.high", is!(Inexact(_))),
        ("parameters:\n  a: {type: real, low: -1.5e308, high: 1.5e308}\n", "parameters.a.high", is!(TooFar { .. })),
        (
            "parameters:\n  a: {type: int, low: 1, high: 3, when: block.x > 32}\n  block.x: [32, 64]\n",
            "parameters.a.when",
            is!(Later { .. }),
        ),
        ("parameters:\n  a: [1, 2, 1]\n", "parameters.a", is!(Twice(_))),
        ("parameters:\n  a-b: [1]\n", "parameters.a-b", is!(Name(_))),
        ("parameters:\n  block: [1]\n", "parameters.block", is!(ReservedName(_))),
        ("parameters:\n  passes: {type: pipeline, passes: [gnv]}\n", "parameters.passes.passes", is!(UnknownPass(_))),
        ("parameters:\n  a: {type: bool, when: b}\n  b: {type: bool}\n", "parameters.a.when", is!(Expression(_))),
        ("parameters:\n  b: [1, 2]\n  a: {type: bool, when: b}\n", "parameters.a.when", is!(NoTruth { .. })),
        // Only the points with wrong values are rejected, so the space is accepted.
        ("parameters:\n  codegen_opt: [1, 7]\n", "", None),
        ("parameters:\n  codegen_opt: [fast]\n", "parameters.codegen_opt", is!(FieldValue(_))),
        (&format!("{block}derived:\n  grid.x: 1000 / block.x\n"), "derived.grid.x", is!(FieldValue(_))),
        (&format!("{block}derived:\n  grid.x: ceil(n / block.x)\n"), "derived.grid.x", is!(Expression(_))),
        (&format!("{block}derived:\n  block.x: 3\n"), "derived.block.x", is!(SameName)),
        (&format!("{block}constraints: ['block.x']\n"), "constraints[0]", is!(NoTruth { .. })),
        (
            &format!("{block}constraints: ['device.multiprocessors * 2 > block.x']\n"),
            "constraints[0]",
            is!(Expression(_)),
        ),
        (&format!("{block}baseline: {{pases: x}}\n"), "baseline.pases", is!(Baseline(_))),
    ];
    for (text, key, expected) in cases {
        let error = space(text).err();
        assert_eq!(error.as_ref().map(|error| error.key.as_str()), expected.map(|_| key), "{text}");
        assert!(error.is_none_or(|error| expected.is_some_and(|is_expected| is_expected(&error.what))), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    let error = FileSpace::load(&missing, &surroundings()).err().unwrap();
    assert!(error.file == missing && matches!(*error.what, Unread(_)), "{error}");
}

#[test]
fn the_device_is_known_as_far_as_it_says() {
    let device = DeviceLimits { registers: Some(4096), ..DeviceLimits::default() };
    let read = |text: &str| {
        let document = Document::parse(text, false).unwrap();
        FileSpace::new(Path::new("space.yaml"), document, &Surroundings { device: device.clone(), ..surroundings() })
    };
    let space = read(
        "parameters:\n  block.x: {type: int, low: 32, high: device.max_block.z, step: 32}\nconstraints: [block.x * 64 <= device.registers]\n",
    );
    let space = space.unwrap();
    assert_eq!((space.size(), space.describe()["device"]["registers"].as_u64()), (Some(2), Some(4096)));
    let error =
        read("parameters:\n  block.x: [32]\nconstraints: [block.x <= device.shared_mem_optin / 64]\n").err().unwrap();
    assert_eq!(error.key, "constraints[0]");
}

#[test]
fn spaces_that_reach_no_field_are_refused() {
    let error = space("parameters:\n  tile: [1, 2]\nderived:\n  twice: tile * 2\n").err().unwrap();
    assert_eq!(*error.what, SpaceFault::NoField);
    assert!(space("parameters:\n  tile: [1, 2]\nderived:\n  twice: tile * 2\n  block.x: twice * 32\n").is_ok());
}

#[test]
fn valid_points_are_those_that_constraints_leave() {
    let text = "parameters:\n  tile: {type: int, low: 1, high: 8}\n  bounds: {type: bool}\n  \
                blocks: {type: int, low: 1, high: 4, when: bounds && tile > 2}\n  block.y: [1, 2, 4]\nderived:\n  n: tile * 32\n  \
                block.x: n\nconstraints:\n  - block.x * block.y <= 512 && tile != 5\n  - blocks == () || blocks * tile < 12\n";
    let space = space(text).unwrap();
    let valid: Vec<Point> = walk(&space).filter(|point| space.ground(point).is_ok()).collect();
    let feasible = crate::space::Feasible::of(&space).unwrap();
    assert_eq!(feasible.size(), Some(valid.len() as u64));
    assert!(valid.iter().all(|point| feasible.contains(point)));
    let mut odometer = crate::space::walk::Odometer::default();
    assert_eq!(std::iter::from_fn(|| odometer.next_valid(&space)).collect::<Vec<_>>(), valid);
}
