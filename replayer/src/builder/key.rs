//! Which configurations come to the same code, before anything is compiled.

use mneme_core::configuration::Specialize;
use mneme_core::hash::chunk_id;

use crate::supervisor::Job;

/// Fields that do not reach the compiler: about running the code, and a name of upstream's that changes nothing here.
const RUNTIME: &[&str] = &["codegen_method", "iterations", "warmup", "cache", "tolerance"];

/// Everything that the code of a configuration depends on, as one comparable text.
pub fn key(job: &Job) -> String {
    let mut key = job.configuration.grounded();
    // Instrumented code has bounds too.
    let has_bounds = key.set_launch_bounds || job.observe.is_some();
    let bounds_follow_block = has_bounds && key.max_threads.is_none_or(|threads| threads == 0);
    // Specialised code has the size of the dynamic shared memory in it.
    if key.specialize != Specialize::All {
        key.shared_mem = 0;
    }
    if !key.specialize_dims {
        key.grid = Default::default();
        if !bounds_follow_block {
            key.block = Default::default();
        }
    }
    let replacement = job.replacement.as_ref().map(|code| (code.kind(), chunk_id(code.bytes()).to_string()));
    let mut key = serde_json::to_value(key).expect("plain data serialises");
    if let Some(fields) = key.as_object_mut() {
        fields.retain(|name, _| !RUNTIME.contains(&name.as_str()));
    }
    let probe = serde_json::to_string(&job.probe).expect("plain data serialises");
    format!("{key}{replacement:?}{}{:?}{probe}", job.keep_ir, job.instrument())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::configuration::Configuration;
    use mneme_core::launch::Dim3;

    fn configuration() -> Configuration {
        Configuration::recorded(Dim3::new(10, 1, 1), Dim3::new(128, 1, 1), 0)
    }

    fn key(configuration: &Configuration) -> String {
        super::key(&Job::new(0, configuration.clone(), 1, 0))
    }

    #[test]
    fn dimensions_matter_to_the_code_only_where_it_knows_them() {
        let mut other = configuration();
        other.block = Dim3::new(64, 1, 1);
        other.grid = Dim3::new(20, 1, 1);
        assert_eq!(key(&configuration()), key(&other));
        let (mut one, mut two) = (configuration(), other);
        (one.specialize_dims, two.specialize_dims) = (true, true);
        assert_ne!(key(&one), key(&two));
        (one.specialize_dims, two.specialize_dims) = (false, false);
        (one.set_launch_bounds, two.set_launch_bounds) = (true, true);
        assert_ne!(key(&one), key(&two), "launch bounds default to the block");
        (one.max_threads, two.max_threads) = (Some(256), Some(256));
        assert_eq!(key(&one), key(&two));
    }

    #[test]
    fn how_it_is_measured_does_not_matter() {
        let mut other = configuration();
        (other.iterations, other.warmup) = (Some(100), Some(7));
        assert_eq!(key(&configuration()), key(&other));
    }

    #[test]
    fn the_compilation_always_matters() {
        for change in [
            |it: &mut Configuration| it.passes = "default<O1>".into(),
            |it: &mut Configuration| it.codegen_opt = 1,
            |it: &mut Configuration| it.specialize = true.into(),
            |it: &mut Configuration| it.prune = false,
            |it: &mut Configuration| it.internalize = true,
            |it: &mut Configuration| it.maxnreg = 32,
        ] {
            let mut other = configuration();
            change(&mut other);
            assert_ne!(key(&configuration()), key(&other));
        }
    }

    #[test]
    fn other_code_matters() {
        let with = |text: &str| {
            let replacement = Some(std::rc::Rc::new(crate::replacement::Replacement::Ptx(text.into())));
            super::key(&Job { replacement, ..Job::new(0, configuration(), 1, 0) })
        };
        assert_ne!(with("a"), with("b"));
        assert_ne!(with("a"), key(&configuration()));
    }
}
