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
const PASSES: [(&str, Level); 80] = [
    ("always-inline", Level::Module),
    ("constmerge", Level::Module),
    ("deadargelim", Level::Module),
    ("globaldce", Level::Module),
    ("globalopt", Level::Module),
    ("inferattrs", Level::Module),
    ("ipsccp", Level::Module),
    ("mergefunc", Level::Module),
    ("argpromotion", Level::Cgscc),
    ("function-attrs", Level::Cgscc),
    ("inline", Level::Cgscc),
    ("adce", Level::Function),
    ("aggressive-instcombine", Level::Function),
    ("alignment-from-assumptions", Level::Function),
    ("bdce", Level::Function),
    ("callsite-splitting", Level::Function),
    ("consthoist", Level::Function),
    ("constraint-elimination", Level::Function),
    ("correlated-propagation", Level::Function),
    ("dce", Level::Function),
    ("dfa-jump-threading", Level::Function),
    ("div-rem-pairs", Level::Function),
    ("dse", Level::Function),
    ("early-cse", Level::Function),
    ("early-cse<memssa>", Level::Function),
    ("flatten-cfg", Level::Function),
    ("float2int", Level::Function),
    ("gvn", Level::Function),
    ("gvn-hoist", Level::Function),
    ("gvn-sink", Level::Function),
    ("infer-address-spaces", Level::Function),
    ("infer-alignment", Level::Function),
    ("instcombine<no-verify-fixpoint>", Level::Function),
    ("instsimplify", Level::Function),
    ("jump-threading", Level::Function),
    ("lcssa", Level::Function),
    ("load-store-vectorizer", Level::Function),
    ("loop-distribute", Level::Function),
    ("loop-fusion", Level::Function),
    ("loop-load-elim", Level::Function),
    ("loop-simplify", Level::Function),
    ("loop-sink", Level::Function),
    ("loop-unroll", Level::Function),
    ("loop-vectorize", Level::Function),
    ("loop-versioning", Level::Function),
    ("lower-expect", Level::Function),
    ("mem2reg", Level::Function),
    ("memcpyopt", Level::Function),
    ("mergeicmps", Level::Function),
    ("mldst-motion", Level::Function),
    ("nary-reassociate", Level::Function),
    ("newgvn", Level::Function),
    ("reassociate", Level::Function),
    ("sccp", Level::Function),
    ("scalarizer", Level::Function),
    ("separate-const-offset-from-gep", Level::Function),
    ("simplifycfg", Level::Function),
    ("sink", Level::Function),
    ("slp-vectorizer", Level::Function),
    ("slsr", Level::Function),
    ("speculative-execution", Level::Function),
    ("sroa", Level::Function),
    ("tailcallelim", Level::Function),
    ("vector-combine", Level::Function),
    ("canon-freeze", Level::Loop),
    ("indvars", Level::Loop),
    ("loop-bound-split", Level::Loop),
    ("loop-deletion", Level::Loop),
    ("loop-flatten", Level::Loop),
    ("loop-idiom", Level::Loop),
    ("loop-instsimplify", Level::Loop),
    ("loop-interchange", Level::Loop),
    ("loop-predication", Level::Loop),
    ("loop-reduce", Level::Loop),
    ("loop-rotate", Level::Loop),
    ("loop-simplifycfg", Level::Loop),
    ("loop-unroll-and-jam", Level::Loop),
    ("loop-unroll-full", Level::Loop),
    ("licm", Level::LoopMssa),
    ("simple-loop-unswitch<nontrivial>", Level::LoopMssa),
];

/// The default start of a search, in the order of a whole pipeline: clean up, inline, simplify loops, unroll them,
/// clean up again.
const START: [&str; 30] = [
    "infer-address-spaces",
    "sroa",
    "early-cse<memssa>",
    "always-inline",
    "inline",
    "globalopt",
    "ipsccp",
    "instcombine<no-verify-fixpoint>",
    "simplifycfg",
    "sroa",
    "early-cse<memssa>",
    "speculative-execution",
    "jump-threading",
    "correlated-propagation",
    "simplifycfg",
    "reassociate",
    "loop-rotate",
    "licm",
    "simple-loop-unswitch<nontrivial>",
    "indvars",
    "loop-deletion",
    "loop-unroll-full",
    "gvn",
    "instcombine<no-verify-fixpoint>",
    "dse",
    "licm",
    "loop-unroll",
    "load-store-vectorizer",
    "instcombine<no-verify-fixpoint>",
    "adce",
];

/// All names that a sequence may have by default.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|(name, _)| *name)
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
        let level =
            PASSES.iter().find(|(known, _)| stem(known) == stem(name)).map_or(Level::Module, |(_, level)| *level);
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
        assert_eq!(names().collect::<BTreeSet<_>>().len(), PASSES.len());
        assert!(start().all(|name| names().any(|known| known == name)));
        assert!(is_known("default<O3>") && is_known("function(gvn)") && is_known("instcombine") && !is_known("gnv"));
    }
}
