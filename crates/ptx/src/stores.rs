//! The memory that inline PTX may write.

use super::inline::{OPERAND, with_named_operands};
use super::lexer::Token;
use super::reader::Parser;
use super::syntax::{Instruction, Operand, Space, Statement};

/// Memory that an instruction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The space that the instruction names.
    pub space: Space,
    /// The number of the assembly's address operand, if the address is an operand.
    pub operand: Option<usize>,
}

/// Instructions that only read the memory in brackets.
const READS: [&str; 18] = [
    "ld.", "ldu.", "ldmatrix.", "prefetch", "tex.", "tld4.", "txq.", "suld.", "suq.", "wmma.load.", "wgmma.",
    "mbarrier.test_wait", "mbarrier.try_wait", "tcgen05.ld.", "tcgen05.mma", "discard.", "applypriority.", "fence.",
];

/// The memory that inline assembly may write; `None` if the text cannot be parsed.
pub fn stores(text: &str) -> Option<Vec<Store>> {
    let source = format!("{};}}", with_named_operands(text));
    let mut parser = Parser::new(&source);
    let statements = parser.body().ok().filter(|_| parser.token == Token::End)?;
    let written = statements.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => written(instruction),
        _ => None,
    });
    Some(written.collect())
}

fn written(instruction: &Instruction<'_>) -> Option<Store> {
    let address = instruction.operands.iter().find_map(|operand| match operand {
        Operand::Bracket(items) => Some(items.first()),
        _ => None,
    })?;
    if READS.iter().any(|read| instruction.text.starts_with(read)) {
        return None;
    }
    let words = instruction.text.split('.').skip(1);
    let space = words.filter_map(|word| Space::of(word.split("::").next()?)).next().unwrap_or(Space::Generic);
    let name = match address {
        Some(Operand::Name(name) | Operand::Sum(name, _)) => name.strip_prefix(OPERAND),
        _ => None,
    };
    Some(Store { space, operand: name.and_then(|number| number.parse().ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_inline_assembly_may_write_is_read() {
        let shared = Space::Shared;
        for (text, expected) in [
            ("cp.async.ca.shared.global [$0], [$1], 16;", Some((shared, Some(0)))),
            (
                "{ .reg .pred p; setp.ne.b32 p, $0, 0; @p cp.async.cg.shared.global [$1], [$2+8], 16; }",
                Some((shared, Some(1))),
            ),
            (
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
                Some((shared, Some(0))),
            ),
            ("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", Some((Space::Global, Some(0)))),
            ("cp.async.wait_group 0;", None),
            ("st.shared.v4.f32 [$0+16], {$1, $2, $3, $4};", Some((shared, Some(0)))),
            ("st.volatile.u32 [${2}], $1", Some((Space::Generic, Some(2)))),
            ("st.global.u32 [$0], $1;", Some((Space::Global, Some(0)))),
            ("mbarrier.init.shared::cta.b64 [$0], $1;", Some((shared, Some(0)))),
            ("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; }", None),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];", None),
            ("atom.shared.add.u32 $0, [$1], $2;", Some((shared, Some(1)))),
            ("LOOP: red.add.u32 [$12], 1;", Some((Space::Generic, Some(12)))),
        ] {
            let found = stores(text).unwrap_or_else(|| panic!("{text}"));
            let found: Vec<_> = found.into_iter().map(|store| (store.space, store.operand)).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{text}");
        }
        assert_eq!(stores("st.shared.u32 [[$0"), None);
    }
}
