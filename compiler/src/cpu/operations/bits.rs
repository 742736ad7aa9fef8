//! Operations on the bits of words.

use super::text::FunctionBody;

/// `fns`: the position of the `offset`th set bit of `mask` from bit `base` on, upwards or (negative) downwards. For
/// offset 0 it is `base` itself, if set. All ones if too few bits are set.
pub fn nth_set(body: &mut FunctionBody, mask: &str, base: &str, offset: &str) -> String {
    let down = body.value(format!("icmp slt i32 {offset}, 0"));
    let reversed = body.value(format!("call i32 @llvm.bitreverse.i32(i32 {mask})"));
    let bits = body.value(format!("select i1 {down}, i32 {reversed}, i32 {mask}"));
    let base = body.value(format!("and i32 {base}, 31"));
    let mirrored = body.value(format!("sub i32 31, {base}"));
    let first = body.value(format!("select i1 {down}, i32 {mirrored}, i32 {base}"));
    let from = body.value(format!("shl i32 -1, {first}"));
    let bits = body.value(format!("and i32 {bits}, {from}"));
    let count = body.value(format!("call i32 @llvm.abs.i32(i32 {offset}, i1 false)"));
    // Binary search: the bits below, and how many of them are set.
    let (mut place, mut left) = ("0".to_owned(), count.clone());
    for width in [16, 8, 4, 2, 1] {
        let part = body.value(format!("lshr i32 {bits}, {place}"));
        let low = body.value(format!("and i32 {part}, {}", (1u32 << width) - 1));
        let set = body.value(format!("call i32 @llvm.ctpop.i32(i32 {low})"));
        let above = body.value(format!("icmp ugt i32 {left}, {set}"));
        let fewer = body.value(format!("sub i32 {left}, {set}"));
        let further = body.value(format!("add i32 {place}, {width}"));
        left = body.value(format!("select i1 {above}, i32 {fewer}, i32 {left}"));
        place = body.value(format!("select i1 {above}, i32 {further}, i32 {place}"));
    }
    let all = body.value(format!("call i32 @llvm.ctpop.i32(i32 {bits})"));
    let is_there = body.value(format!("icmp uge i32 {all}, {count}"));
    let opposite = body.value(format!("sub i32 31, {place}"));
    let found = body.value(format!("select i1 {down}, i32 {opposite}, i32 {place}"));
    let found = body.value(format!("select i1 {is_there}, i32 {found}, i32 -1"));
    let own = body.value(format!("lshr i32 {mask}, {base}"));
    let own = body.value(format!("trunc i32 {own} to i1"));
    let own = body.value(format!("select i1 {own}, i32 {base}, i32 -1"));
    let is_own = body.value(format!("icmp eq i32 {offset}, 0"));
    body.value(format!("select i1 {is_own}, i32 {own}, i32 {found}"))
}
