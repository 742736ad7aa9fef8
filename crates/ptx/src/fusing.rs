//! Products and sums without a rounding modifier, which an assembler may fuse.

use std::collections::HashSet;

use super::lexer::{Lexer, Token};
use super::outline::PtxClosure;

const FLOATS: [&str; 7] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];
const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// The name and the modifiers of a product or sum of floats that has no rounding modifier.
fn loose(word: &str) -> Option<(&str, &str)> {
    let (name, modifiers) = word.split_once('.').filter(|(name, _)| matches!(*name, "add" | "sub" | "mul"))?;
    let has = |words: &[&str]| modifiers.split('.').any(|modifier| words.contains(&modifier));
    (has(&FLOATS) && !has(&ROUNDINGS)).then_some((name, modifiers))
}

impl PtxClosure {
    /// The number of sums that may be fused with a product: both have the same modifiers, and none for rounding.
    pub fn fusable_pairs(&self) -> u64 {
        fusable_pairs(&self.text)
    }
}

fn fusable_pairs(text: &str) -> u64 {
    let (mut products, mut pairs) = (HashSet::new(), 0);
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.token() {
            Token::End => return pairs,
            // Registers belong to a function.
            Token::Word(".func" | ".entry") => products.clear(),
            Token::Word(word) => {
                let Some((name, modifiers)) = loose(word) else { continue };
                let Token::Word(result) = lexer.token() else { continue };
                let mut is_fusable = false;
                loop {
                    match lexer.token() {
                        Token::Word(operand) => is_fusable |= products.contains(&(operand, modifiers)),
                        Token::Mark(b';') | Token::End => break,
                        _ => {}
                    }
                }
                if name == "mul" {
                    products.insert((result, modifiers));
                } else {
                    products.remove(&(result, modifiers));
                    pairs += u64::from(is_fusable);
                }
            }
            _ => {}
        }
    }
}

/// Adds `.rn` to all such products and sums in a module. An assembler then fuses none of them.
pub fn unfused(text: &str) -> String {
    let mut unfused = String::with_capacity(text.len() + text.len() / 64);
    let (mut lexer, mut copied) = (Lexer::new(text), 0);
    loop {
        match lexer.token() {
            Token::End => return unfused + &text[copied..],
            Token::Word(word) => {
                let Some((_, modifiers)) = loose(word) else { continue };
                let at = lexer.place() - modifiers.len();
                unfused += &text[copied..at];
                unfused += "rn.";
                copied = at;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = ".entry one() {
	mul.f32 %f1, %f2, %f3; // mul.f32 in a comment
	mul.rn.f64 %d1, %d2, %d3;
	@%p add.f32 %f4, %f1, %f5;
	add.f64 %d4, %d1, %d1;
	sub.ftz.f32 %f6, %f1, %f5;
	mul.ftz.f32 %f7, %f2, 0f3F800000;
	sub.ftz.f32 %f6, %f5, %f7;
	add.s32 %r1, %r1, 1;
	atom.global.add.f32 %f8, [%rd1], %f1;
}
.func two() { add.f32 %f4, %f1, %f5; }
";

    #[test]
    fn pairs_have_one_type_and_no_rounding() {
        assert_eq!(fusable_pairs(MODULE), 2);
        assert_eq!(fusable_pairs(&unfused(MODULE)), 0);
        for torn in (0..MODULE.len()).filter_map(|length| MODULE.get(..length)) {
            assert!(fusable_pairs(torn) <= 2);
            unfused(torn);
        }
    }

    #[test]
    fn only_products_and_sums_of_floats_are_rounded() {
        let unfused = unfused(MODULE);
        for line in [
            "\tmul.rn.f32 %f1, %f2, %f3; // mul.f32 in a comment\n",
            "\tmul.rn.f64 %d1",
            "@%p add.rn.f32 %f4",
            "add.rn.f64 %d4",
            "sub.rn.ftz.f32 %f6, %f5, %f7;",
            "add.s32",
            "atom.global.add.f32",
            "{ add.rn.f32 %f4, %f1, %f5; }\n",
        ] {
            assert!(unfused.contains(line), "{line}: {unfused}");
        }
        assert_eq!(unfused.replace(".rn.", "."), MODULE.replace(".rn.", "."));
    }
}
