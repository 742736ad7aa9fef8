//! A planted fault of the assembler, for tests of mneme-bisect.
//!
//! With `mneme-fault<assembler>` in a pipeline (see faults.cpp), the assembler drops the last externally visible store
//! from level 2 on. The pass only marks the PTX, and the fault happens during assembly, so the same PTX is right at one
//! level and wrong at another.

use std::borrow::Cow;

/// A comment in the last line of PTX that is to be assembled wrongly.
const MARK: &str = "// mneme-fault<assembler>\n";
/// The lowest level with the fault.
const LEVEL: u8 = 2;

/// Marks PTX for the fault.
pub fn mark(ptx: &mut String) {
    if !ptx.ends_with('\n') {
        ptx.push('\n');
    }
    ptx.push_str(MARK);
}

/// The PTX as the broken assembler understands it.
pub(super) fn plant(ptx: &str, level: u8) -> Cow<'_, str> {
    if level < LEVEL || !ptx.ends_with(MARK) {
        return ptx.into();
    }
    let lines: Vec<&str> = ptx.split_inclusive('\n').collect();
    let last = lines
        .iter()
        .rposition(|line| is_visible_store(line, "st.global"))
        .or(lines.iter().rposition(|line| is_visible_store(line, "st.")));
    let kept = lines.iter().enumerate().filter(|(at, _)| Some(*at) != last);
    kept.map(|(_, line)| *line).collect::<String>().into()
}

/// Whether a line is a store that begins with `begin`, conditional or not, to memory other than parameters, shared
/// memory or the stack.
fn is_visible_store(line: &str, begin: &str) -> bool {
    let line = line.trim_start();
    let instruction = if line.starts_with('@') {
        line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
    } else {
        line
    };
    let is_hidden = ["st.param", "st.shared", "st.local"].iter().any(|hidden| instruction.starts_with(hidden))
        || instruction.contains("[%SP");
    instruction.starts_with(begin) && !is_hidden
}

#[cfg(test)]
mod tests {
    use super::super::{Assembler, AssemblerOptions};
    use super::*;
    use mneme_builds::ImageKind;

    const PTX: &str = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %rd<2>;\n.reg .pred %p1;\n\
                       ld.param.u64 %rd1, [p];\nsetp.eq.s64 %p1, %rd1, 0;\nst.global.u32 [%rd1], 1;\n@%p1 st.global.u32 [%rd1+4], 2;\nret;\n}\n";

    #[test]
    fn the_same_ptx_is_right_at_one_level_and_wrong_at_another() {
        let mut marked = PTX.to_owned();
        mark(&mut marked);
        let lost = PTX.replace("@%p1 st.global.u32 [%rd1+4], 2;\n", "");
        assert_ne!(lost, PTX);
        let assembled = |ptx: &str, level| {
            Assembler::find()
                .assemble(ptx, "k", "sm_90", AssemblerOptions { level, ..AssemblerOptions::default() })
                .unwrap()
        };
        if assembled(PTX, 3).kind != ImageKind::Cubin {
            mneme_fixtures::skip("no assembler on this machine");
            return;
        }
        for level in 0..=3 {
            let meant = if level < LEVEL { PTX } else { &lost };
            assert_eq!(assembled(&marked, level).image, assembled(meant, level).image, "level {level}");
            assert_ne!(assembled(PTX, level).image, assembled(&lost, level).image, "level {level}");
        }
    }

    #[test]
    fn what_the_kernel_keeps_to_itself_is_not_lost() {
        let plant = |text: &str| super::plant(&format!("{text}{MARK}"), 3).into_owned();
        assert_eq!(
            plant("st.u32 [%rd1], 1;\nst.u32 [%SP+4], 2;\nst.shared.u32 [%r1], 3;\n"),
            format!("st.u32 [%SP+4], 2;\nst.shared.u32 [%r1], 3;\n{MARK}")
        );
        assert_eq!(plant("st.global.u32 [%rd1], 1;\nst.u32 [%rd1], 2;\n"), format!("st.u32 [%rd1], 2;\n{MARK}"));
        assert_eq!(super::plant(PTX, 3), PTX);
    }
}
