//! The search of recorded memory for pointers to variables of the code.
//!
//! A variable is where the driver has put it; what points to where it was recorded would lead elsewhere.

use std::ops::Range;

use mneme_core::recording::leads::Leads;
use mneme_core::recording::manifest::Region;

/// What addresses lead to variables. Tables of functions are not meant: they are where they were recorded.
pub struct VariablePointers {
    names: Vec<String>,
    leads: Leads,
    /// Around all such addresses.
    bounds: Range<u64>,
}

impl VariablePointers {
    pub fn of(regions: &[Region<'_>]) -> Self {
        let (mut names, mut targets, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for region in regions {
            let range = region.address..region.address.saturating_add(region.size);
            if let Some(variable) = region.variable.filter(|variable| !variable.code) {
                names.push(variable.name.clone());
                targets.push(range.clone());
            }
            all.push(range);
        }
        let leads = Leads::to(&targets, &all);
        let ends = [leads.ranges().first(), leads.ranges().last()];
        let bounds = if let [Some(first), Some(last)] = ends { first.start..last.end } else { 0..0 };
        Self { names, leads, bounds }
    }

    /// The first pointer among bytes at an address, and the variable that it leads to. A pointer that is not aligned is
    /// not seen: no instruction loads one.
    pub fn find(&self, address: u64, bytes: &[u8]) -> Option<(u64, &str)> {
        if self.names.is_empty() {
            return None;
        }
        let skipped = address.next_multiple_of(8) - address;
        let (words, _) = bytes.get(skipped as usize..)?.as_chunks::<8>();
        words.iter().enumerate().find_map(|(index, word)| {
            let word = u64::from_le_bytes(*word);
            let number = self.bounds.contains(&word).then(|| self.leads.of(word).first()).flatten()?;
            Some((address + skipped + 8 * index as u64, self.names[*number].as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use mneme_core::recording::manifest::{Header, State, Variable};

    use super::*;

    fn pointers() -> VariablePointers {
        let variable =
            |name: &str, address, code| Variable { name: name.into(), address, size: 16, constant: code, code };
        let variables = vec![variable("table", 0x7000_0000_0010, false), variable("methods", 0x7000_0000_0020, true)];
        let chunks = vec![Vec::new(); variables.len()];
        let state = State { header: Header { variables, ..Header::default() }, chunks };
        VariablePointers::of(&state.regions().collect::<Vec<_>>())
    }

    #[test]
    fn pointers_into_and_beside_variables_are_found() {
        let at = |words: [u64; 3]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            pointers().find(0x1000, &bytes).map(|(at, name)| (at, name.to_owned()))
        };
        let found = |at| Some((at, "table".to_owned()));
        assert_eq!(at([7, 0x7000_0000_0010, 0]), found(0x1008));
        assert_eq!(at([7, 8, 0x7000_0000_001f]), found(0x1010));
        assert_eq!(at([0x7000_0000_000c, 0, 0]), found(0x1000));
        // A table of functions is where it was, and so is what lies far from variables.
        assert_eq!(at([0x7000_0000_0020, 0x6fff_0000_0000, u64::MAX]), None);
    }

    #[test]
    fn words_are_looked_for_where_they_are_aligned() {
        let word = 0x7000_0000_0010u64.to_le_bytes();
        let bytes = [&[0; 3][..], &word].concat();
        assert_eq!(pointers().find(0x1005, &bytes).map(|(at, _)| at), Some(0x1008));
        assert_eq!(pointers().find(0x1000, &bytes), None);
        assert_eq!(pointers().find(0x1005, &bytes[..2]), None);
        assert_eq!(VariablePointers::of(&[]).find(0x1000, &word), None);
    }
}
