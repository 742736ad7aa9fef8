//! The parameters of a kernel, as far as its code describes them.

use mneme_image::ir_section::IrArgument;
use mneme_winners::FoldedKinds;

use super::key::may_be_address;

/// The kind of an argument whose type is unknown.
const UNKNOWN: &str = "";
const STRUCTURE: &str = "byval";

pub struct Parameters(Vec<IrArgument>);

impl Parameters {
    /// Parameters from IR, with types.
    pub fn typed(arguments: Vec<IrArgument>) -> Self {
        Self(arguments)
    }

    /// Parameters from PTX or machine code: offset and size of each in the parameter buffer, bytes.
    pub fn untyped(layout: impl Iterator<Item = (u32, u32)>) -> Self {
        let kind = |size| if size > 8 { STRUCTURE } else { UNKNOWN };
        Self(layout.map(|(offset, size)| IrArgument::new("", kind(size), offset, size)).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &IrArgument> {
        self.0.iter()
    }

    /// Offset and size of each argument in the parameter buffer, bytes.
    pub fn layout(&self) -> impl Iterator<Item = (u32, u32)> {
        self.iter().map(|argument| (argument.offset, argument.size))
    }

    /// Scalar arguments of these kinds with known types: index, offset in the parameter buffer and size, bytes.
    pub fn foldable(&self, kinds: FoldedKinds) -> impl Iterator<Item = (u32, u32, usize)> {
        let is_meant = move |argument: &IrArgument| {
            argument.specialisable() && (kinds == FoldedKinds::Scalars || argument.kind.starts_with('i'))
        };
        let arguments = (0..).zip(self.iter()).filter(move |(_, argument)| is_meant(argument));
        arguments.map(|(index, argument)| (index, argument.offset, argument.size as usize))
    }

    /// Every pointer argument, and each word of an argument of unknown type that may be one: the argument's index and
    /// name, and the offset in it, bytes.
    pub fn pointers(&self) -> impl Iterator<Item = (usize, &str, u32)> {
        self.iter().enumerate().flat_map(|(index, argument)| {
            let offsets: Vec<u32> = match (argument.kind.as_str(), &argument.pointers) {
                ("ptr", _) => vec![0],
                (_, Some(offsets)) => offsets.clone(),
                (STRUCTURE | UNKNOWN, None) => (0..argument.size).step_by(8).collect(),
                _ => Vec::new(),
            };
            offsets.into_iter().map(move |offset| (index, argument.name.as_str(), offset))
        })
    }

    /// Whether the positions of pointers in an argument are known.
    pub fn is_typed(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|argument| match argument.kind.as_str() {
            STRUCTURE => argument.pointers.is_some(),
            kind => kind != UNKNOWN,
        })
    }

    /// Whether only the size of an argument is known.
    pub fn is_untyped(&self, index: usize) -> bool {
        self.kind(index) == Some(UNKNOWN)
    }

    /// Whether an argument with this value is a number.
    pub fn is_scalar(&self, index: usize, bytes: &[u8]) -> bool {
        match self.kind(index) {
            None | Some("ptr" | STRUCTURE) => false,
            Some(UNKNOWN) => !may_be_address(bytes),
            Some(_) => true,
        }
    }

    fn kind(&self, index: usize) -> Option<&str> {
        self.0.get(index).map(|argument| argument.kind.as_str())
    }
}

#[cfg(test)]
impl Parameters {
    /// Parameters of 8 bytes each.
    pub fn of_kinds(kinds: &[&str]) -> Self {
        Self((0..).zip(kinds).map(|(index, kind)| IrArgument::new("", *kind, 8 * index, 8)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_told_by_types_and_else_may_be_anywhere() {
        let mut parameters = Parameters::of_kinds(&["ptr", "i64", "byval", "byval", "", "double"]);
        parameters.0[2].size = 20;
        parameters.0[3].pointers = Some(vec![8, 24]);
        let found: Vec<(usize, u32)> = parameters.pointers().map(|(index, _, offset)| (index, offset)).collect();
        assert_eq!(found, [(0, 0), (2, 0), (2, 8), (2, 16), (3, 8), (3, 24), (4, 0)]);
    }

    #[test]
    fn without_types_words_may_be_addresses_and_structures_hold_any() {
        let parameters = Parameters::untyped([(0, 8), (8, 4), (16, 24)].into_iter());
        let found: Vec<(usize, u32)> = parameters.pointers().map(|(index, _, offset)| (index, offset)).collect();
        assert_eq!(found, [(0, 0), (1, 0), (2, 0), (2, 8), (2, 16)]);
        assert!((0..3).all(|index| !parameters.is_typed(index)) && !parameters.is_untyped(2));
    }
}
