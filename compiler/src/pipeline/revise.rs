//! Changes a kernel's IR before its pipeline runs, to diagnose the kernel.
//!
//! A revision removes parts (reduce.cpp) or makes undefined behaviour visible (undefined.cpp, overlaps.cpp).

use std::ffi::{c_char, c_int};

use inkwell::module::Module;
use llvm_sys::prelude::LLVMModuleRef;
use mneme_builds::probe::{Assumption, Inventory, Revision};

use super::forget;
use crate::error::RevisionError;
use crate::llvm;

unsafe extern "C" {
    fn mneme_llvm_reduce(
        module: LLVMModuleRef,
        kernel: *const c_char,
        part: c_int,
        from: u64,
        to: u64,
        counts: *mut u64,
    ) -> *mut c_char;
    fn mneme_llvm_trap_undefined(module: LLVMModuleRef, fast_math: c_int, from: u64, to: u64) -> *mut c_char;
    fn mneme_llvm_trap_overlaps(
        module: LLVMModuleRef,
        kernel: *const c_char,
        types: c_int,
        functions: *const c_char,
        from: u64,
        to: u64,
    ) -> *mut c_char;
    fn mneme_llvm_fill_locals(module: LLVMModuleRef, byte: u8);
}

/// Changes a module.
///
/// # Errors
/// The rest would be of no use.
pub fn revise(module: &Module<'_>, kernel: &str, revision: Revision) -> Result<Inventory, RevisionError> {
    let mut found = Inventory::default();
    match revision {
        Revision::Remove { part, from, to } => {
            let kernel = llvm::c_text(kernel)?;
            let mut counts = [0; 7];
            // SAFETY: module and name live for the length of the call, which fills the seven counts.
            let wrong = unsafe {
                mneme_llvm_reduce(module.as_mut_ptr(), kernel.as_ptr(), part as c_int, from, to, counts.as_mut_ptr())
            };
            llvm::unless_refused(wrong)?;
            found.instructions = counts[0];
            found.parts.copy_from_slice(&counts[1..]);
        }
        // SAFETY: the module lives for the length of the call.
        Revision::FillLocals(byte) => unsafe { mneme_llvm_fill_locals(module.as_mut_ptr(), byte) },
        Revision::Forget(assumption) => forget::forget(module, assumption),
        Revision::Trap { assumption, from, to } => {
            found.checked = trap(module, kernel, assumption, from, to)?.lines().map(str::to_owned).collect();
        }
    }
    module.verify().map_err(|error| RevisionError::Invalid(error.to_string()))?;
    Ok(found)
}

/// The instructions that may break an assumption, a line each; some of them end the kernel then.
fn trap(
    module: &Module<'_>,
    kernel: &str,
    assumption: Assumption,
    from: u64,
    to: u64,
) -> Result<String, RevisionError> {
    /// NUL-terminated for LLVM's parser.
    const FUNCTIONS: &str = concat!(include_str!("../llvm/overlaps.ll"), "\0");
    let name = llvm::c_text(kernel)?;
    let flag = c_int::from(matches!(assumption, Assumption::FastMath | Assumption::Types));
    // SAFETY: module and texts live for the length of the calls; the lines that they return are ours.
    let lines = unsafe {
        match assumption {
            Assumption::Arithmetic | Assumption::FastMath => {
                mneme_llvm_trap_undefined(module.as_mut_ptr(), flag, from, to)
            }
            Assumption::Types | Assumption::NoAlias => {
                mneme_llvm_trap_overlaps(module.as_mut_ptr(), name.as_ptr(), flag, FUNCTIONS.as_ptr().cast(), from, to)
            }
        }
    };
    Ok(llvm::take(lines).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkwell::context::Context;
    use inkwell::memory_buffer::MemoryBuffer;
    use mneme_builds::probe::ModulePart;

    const KERNEL: &str = "
        define void @k(ptr %out, i32 %n) {
        entry:
          %local = alloca i32
          store i32 %n, ptr %local
          %above = icmp sgt i32 %n, 5
          br i1 %above, label %big, label %end
        big:
          %sum = add nsw i32 %n, 7
          %twice = mul i32 %sum, 2
          %helped = call i32 @helper(i32 %twice)
          br label %end
        end:
          %value = phi i32 [ %helped, %big ], [ %n, %entry ]
          store i32 %value, ptr %out
          ret void
        }
        define i32 @helper(i32 %x) {
          %y = shl i32 1, %x
          ret i32 %y
        }";

    /// The module's text after a revision.
    fn revised(revision: Revision) -> (String, Inventory) {
        revised_text(KERNEL, revision)
    }

    fn revised_text(text: &str, revision: Revision) -> (String, Inventory) {
        let context = Context::create();
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
        let module = context.create_module_from_ir(buffer).unwrap();
        let found = revise(&module, "k", revision).unwrap();
        (crate::ir::text(&module), found)
    }

    fn without(part: ModulePart, from: u64, to: u64) -> (String, Inventory) {
        revised(Revision::Remove { part, from, to })
    }

    #[test]
    fn parts_are_counted_and_taken_out() {
        let (text, found) = without(ModulePart::Everything, 0, 0);
        // The local variable is only written.
        assert!(!text.contains("alloca"));
        assert_eq!((found.instructions, found.parts), (11, [1, 2, 2, 7, 4, 2]), "{text}");
        let (text, _) = without(ModulePart::Functions, 0, 1);
        assert!(!text.contains("@helper") && text.contains("phi i32 [ 0, %big ]"), "{text}");
        let (text, found) = without(ModulePart::Ends, 0, 1);
        assert!(!text.contains("phi") && text.matches("ret void").count() == 1 && found.parts[1] == 0, "{text}");
        let (text, _) = without(ModulePart::Branches, 1, 2);
        assert!(!text.contains("%sum") && text.contains("store i32 %n, ptr %out"), "{text}");
        let (text, found) = without(ModulePart::Branches, 0, 1);
        assert!(!text.contains("br ") && found.parts[2] == 0, "{text}");
        let (text, _) = without(ModulePart::Arguments, 0, 1);
        assert!(text.contains("br i1 false"), "{text}");
    }

    #[test]
    fn undefined_results_end_the_kernel() {
        let (text, found) = revised(Revision::Trap { assumption: Assumption::Arithmetic, from: 0, to: 9 });
        assert_eq!(text.matches("call void @llvm.trap()").count(), 2, "{text}");
        assert!(found.checked[0].contains("add nsw i32 %n, 7") && found.checked[1].contains("helper"), "{found:?}");
        assert!(text.contains("@llvm.sadd.with.overflow.i32"), "{text}");
        let (text, found) = revised(Revision::Trap { assumption: Assumption::Arithmetic, from: 1, to: 2 });
        assert!(text.matches("call void @llvm.trap()").count() == 1 && found.checked.len() == 2, "{text}");
        let (text, _) = revised(Revision::FillLocals(170));
        assert!(text.contains("@llvm.memset") && text.contains("i8 -86"), "{text}");
    }

    #[test]
    fn accesses_that_overlap_end_the_kernel() {
        let kernel = |attribute: &str, tag: &str| {
            format!(
                "define i32 @k(ptr {attribute} %a, ptr %b) {{
                  store i32 1, ptr %a, align 4, !tbaa !0
                  store float 2.0, ptr %b, align 4, !tbaa !{tag}
                  %value = load i32, ptr %a, align 4, !tbaa !0
                  ret i32 %value
                }}
                !0 = !{{!1, !1, i64 0}}
                !1 = !{{!\"int\", !2, i64 0}}
                !2 = !{{!\"char\", !3, i64 0}}
                !3 = !{{!\"root\"}}
                !4 = !{{!5, !5, i64 0}}
                !5 = !{{!\"float\", !2, i64 0}}"
            )
        };
        let checked = |text: &str, assumption, to| {
            let (text, found) = revised_text(text, Revision::Trap { assumption, from: 0, to });
            // Checked instructions have a mask.
            let asked = text.lines().filter(|line| line.contains("call void @__mneme_overlap"));
            (found.checked, asked.filter(|line| !line.contains("i64 0, i64 0")).count())
        };
        // Two types, one of which is read; a character may alias any type.
        let (lines, asked) = checked(&kernel("", "4"), Assumption::Types, 9);
        assert!(matches!(&lines[..], [line] if line.contains("load i32")) && asked == 1, "{lines:?}");
        assert_eq!(checked(&kernel("", "4"), Assumption::Types, 0).1, 0);
        assert_eq!(checked(&kernel("", "0"), Assumption::Types, 9).0.len(), 0);
        // One pointer leads where the other does not.
        assert_eq!(checked(&kernel("noalias", "0"), Assumption::NoAlias, 9).0.len(), 3);
        assert_eq!(checked(&kernel("", "0"), Assumption::NoAlias, 9).0.len(), 0);
    }

    #[test]
    fn each_assumption_is_taken_away_alone() {
        let kernel = "
            define void @k(ptr noalias %out, ptr noalias %in, float %x, i64 %n) {
              %place = getelementptr inbounds i32, ptr %in, i64 %n
              %value = load i32, ptr %place, align 4, !tbaa !0
              %sum = add nuw nsw i32 %value, 7
              %half = sdiv exact i32 %sum, 2
              %twice = fadd fast float %x, %x
              store i32 %half, ptr %out, align 4, !tbaa !0, !noalias !4
              ret void
            }
            !0 = !{!1, !1, i64 0}
            !1 = !{!\"int\", !2, i64 0}
            !2 = !{!\"root\"}
            !3 = !{!3}
            !4 = !{!5}
            !5 = !{!5, !3}";
        let marks = ["!tbaa", "noalias", "nsw", "nuw", "exact", "inbounds", "fast"];
        for (assumption, gone) in [
            (Assumption::Types, &marks[..1]),
            (Assumption::NoAlias, &marks[1..2]),
            (Assumption::Arithmetic, &marks[2..6]),
            (Assumption::FastMath, &marks[6..]),
        ] {
            let (text, _) = revised_text(kernel, Revision::Forget(assumption));
            for mark in marks {
                assert_eq!(text.contains(mark), !gone.contains(&mark), "{assumption:?}, {mark}: {text}");
            }
        }
    }
}
