//! Turns sequences of LLVM's passes into pipelines.
//!
//! A sequence is a list of names without nesting, so it can be cut, mixed and mutated anywhere. [`pipeline`] adds the
//! managers (`function`, `loop-mssa`, …). The names are those of LLVM 19; an end-to-end test runs each on a kernel.

/// The unit on which a pass works, which determines its managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Module,
    Cgscc,
    Function,
    Loop,
    /// Loops, with memory SSA kept up to date.
    LoopMssa,
}

/// Passes that can change a kernel's code: canonicalisation, scalar and memory optimisation, loops, vector loads and
/// stores, addresses. Leaves out passes that only print, verify or instrument, and those for coroutines, exceptions or
/// host calls.
const PASSES: [(Level, &[&str]); 5] = [
    (
        Level::Module,
        &["always-inline", "constmerge", "deadargelim", "globaldce", "globalopt", "inferattrs", "ipsccp", "mergefunc"],
    ),
    (Level::Cgscc, &["argpromotion", "function-attrs", "inline"]),
    (
        Level::Function,
        &[
            "adce", "aggressive-instcombine", "alignment-from-assumptions", "bdce", "callsite-splitting", "consthoist",
            "constraint-elimination", "correlated-propagation", "dce", "dfa-jump-threading", "div-rem-pairs", "dse",
            "early-cse", "early-cse<memssa>", "flatten-cfg", "float2int", "gvn", "gvn-hoist", "gvn-sink",
            "infer-address-spaces", "infer-alignment", "instcombine<no-verify-fixpoint>", "instsimplify",
            "jump-threading", "lcssa", "load-store-vectorizer", "loop-distribute", "loop-fusion", "loop-load-elim",
            "loop-simplify", "loop-sink", "loop-unroll", "loop-vectorize", "loop-versioning", "lower-expect",
            "mem2reg", "memcpyopt", "mergeicmps", "mldst-motion", "nary-reassociate", "newgvn", "reassociate", "sccp",
            "scalarizer", "separate-const-offset-from-gep", "simplifycfg", "sink", "slp-vectorizer", "slsr",
            "speculative-execution", "sroa", "tailcallelim", "vector-combine",
        ],
    ),
    (
        Level::Loop,
        &[
            "canon-freeze", "indvars", "loop-bound-split", "loop-deletion", "loop-flatten", "loop-idiom",
            "loop-instsimplify", "loop-interchange", "loop-predication", "loop-reduce", "loop-rotate",
            "loop-simplifycfg", "loop-unroll-and-jam", "loop-unroll-full",
        ],
    ),
    (Level::LoopMssa, &["licm", "simple-loop-unswitch<nontrivial>"]),
];

/// The default start of a search, in the order of a whole pipeline: clean up, inline, simplify loops, unroll them,
/// clean up again.
const START: [&str; 30] = [
    "infer-address-spaces", "sroa", "early-cse<memssa>", "always-inline", "inline", "globalopt", "ipsccp",
    "instcombine<no-verify-fixpoint>", "simplifycfg", "sroa", "early-cse<memssa>", "speculative-execution",
    "jump-threading", "correlated-propagation", "simplifycfg", "reassociate", "loop-rotate", "licm",
    "simple-loop-unswitch<nontrivial>", "indvars", "loop-deletion", "loop-unroll-full", "gvn",
    "instcombine<no-verify-fixpoint>", "dse", "licm", "loop-unroll", "load-store-vectorizer",
    "instcombine<no-verify-fixpoint>", "adce",
];

/// All names that a sequence may have by default.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().flat_map(|(_, names)| *names).copied()
}

/// The default start of a search.
pub fn start() -> impl Iterator<Item = &'static str> {
    START.into_iter()
}

/// Whether [`pipeline`] knows the managers for `name`: a pass of the table, or a pipeline such as `default<O3>` or
/// `function(gvn)`.
pub fn is_known(name: &str) -> bool {
    name.contains(['(', '<']) || names().any(|known| stem(known) == name)
}

/// A name without its parameters.
fn stem(name: &str) -> &str {
    name.split(['<', '(']).next().unwrap_or(name)
}

/// The sequence in the syntax of `opt -passes`.
pub fn pipeline<'a>(sequence: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut open: &[&str] = &[];
    for name in sequence {
        let works_on = |(_, names): &&(Level, &[&str])| names.iter().any(|known| stem(known) == stem(name));
        let level = PASSES.iter().find(works_on).map_or(Level::Module, |(level, _)| *level);
        let managers: &[&str] = match level {
            Level::Module => &[],
            Level::Cgscc => &["cgscc"],
            Level::Function => &["function"],
            Level::Loop => &["function", "loop"],
            Level::LoopMssa => &["function", "loop-mssa"],
        };
        let shared = open.iter().zip(managers).take_while(|(a, b)| a == b).count();
        text.extend(open[shared..].iter().map(|_| ')'));
        if !text.is_empty() {
            text.push(',');
        }
        for manager in &managers[shared..] {
            text.push_str(manager);
            text.push('(');
        }
        text.push_str(name);
        open = managers;
    }
    text.extend(open.iter().map(|_| ')'));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn passes_are_nested_by_what_they_work_on() {
        let sequence = ["globalopt", "sroa", "gvn", "indvars", "loop-rotate", "licm", "adce", "inline", "default<O1>"];
        let expected =
            "globalopt,function(sroa,gvn,loop(indvars,loop-rotate),loop-mssa(licm),adce),cgscc(inline),default<O1>";
        assert_eq!(pipeline(sequence), expected);
        assert_eq!(pipeline(["licm"]), "function(loop-mssa(licm))");
        assert_eq!(pipeline(["default<O3>", "licm"]), "default<O3>,function(loop-mssa(licm))");
        assert_eq!(
            pipeline(["instcombine", "inline<only-mandatory>"]),
            "function(instcombine),cgscc(inline<only-mandatory>)"
        );
        assert_eq!(pipeline([]), "");
    }

    #[test]
    fn names_are_distinct_and_the_start_is_made_of_them() {
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count());
        assert!(start().all(|name| names().any(|known| known == name)));
        assert!(is_known("default<O3>") && is_known("function(gvn)") && is_known("instcombine") && !is_known("gnv"));
    }
}
