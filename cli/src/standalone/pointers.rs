//! Searches recorded memory for pointers to variables of the code.
//!
//! The driver places variables anew, so pointers to their recorded addresses would lead elsewhere.

use std::ops::Range;

use mneme_recording::leads::Leads;
use mneme_recording::manifest::RecordedRegion;

/// The address ranges that lead to variables. Tables of functions are left out, because they keep their addresses.
pub struct VariablePointers {
    variables: Vec<(String, Range<u64>)>,
    leads: Leads,
    /// The range around all such addresses.
    bounds: Range<u64>,
}

/// A pointer in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Its address.
    pub at: u64,
    /// The variable to which it leads.
    pub variable: String,
    /// Whether it points into the variable. A pointer beside it may as well be a number.
    pub is_inside: bool,
}

impl VariablePointers {
    pub fn of(regions: &[RecordedRegion<'_>]) -> Self {
        let range = |region: &RecordedRegion<'_>| region.address..region.address.saturating_add(region.size);
        let own = regions.iter().filter_map(|region| {
            let variable = region.variable.filter(|variable| !variable.code)?;
            Some((variable.name.clone(), range(region)))
        });
        let variables: Vec<_> = own.collect();
        let targets: Vec<_> = variables.iter().map(|(_, range)| range.clone()).collect();
        let leads = Leads::to(&targets, &regions.iter().map(range).collect::<Vec<_>>());
        let ends = [leads.ranges().first(), leads.ranges().last()];
        let bounds = if let [Some(first), Some(last)] = ends { first.start..last.end } else { 0..0 };
        Self { variables, leads, bounds }
    }

    /// The first pointer into a variable among bytes at an address, otherwise the first one beside a variable. Skips
    /// unaligned words, because no instruction loads them as pointers.
    pub fn find(&self, address: u64, bytes: &[u8]) -> Option<Pointer> {
        if self.variables.is_empty() {
            return None;
        }
        let skipped = address.next_multiple_of(8) - address;
        let (words, _) = bytes.get(skipped as usize..)?.as_chunks::<8>();
        let mut beside = None;
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            if !self.bounds.contains(&word) {
                continue;
            }
            let led = || self.leads.of(word).iter().map(|number| &self.variables[*number]);
            let inside = led().find(|(_, range)| range.contains(&word));
            if let Some((name, _)) = inside.or_else(|| led().next()) {
                let at = address + skipped + 8 * index as u64;
                let pointer = Pointer { at, variable: name.clone(), is_inside: inside.is_some() };
                if pointer.is_inside {
                    return Some(pointer);
                }
                beside.get_or_insert(pointer);
            }
        }
        beside
    }
}

#[cfg(test)]
mod tests {
    use mneme_recording::manifest::{Header, MemoryState, RecordedVariable};

    use super::*;

    fn pointers() -> VariablePointers {
        let variable = |name: &str, address, code| RecordedVariable {
            name: name.into(),
            address,
            size: 16,
            constant: code,
            code,
            functions: Vec::new(),
        };
        let variables = vec![variable("table", 0x7000_0000_0010, false), variable("methods", 0x7000_0000_0020, true)];
        let chunks = vec![Vec::new(); variables.len()];
        let state = MemoryState { header: Header { variables, ..Header::default() }, chunks };
        VariablePointers::of(&state.regions().collect::<Vec<_>>())
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn pointers_into_and_beside_variables_are_found() {
        let find = |words: [u64; 3]| {
            let found = pointers().find(0x1000, &bytes(&words))?;
            assert_eq!(found.variable, "table");
            Some((found.at, found.is_inside))
        };
        assert_eq!(find([7, 0x7000_0000_0010, 0]), Some((0x1008, true)));
        assert_eq!(find([7, 8, 0x7000_0000_001f]), Some((0x1010, true)));
        assert_eq!(find([0x7000_0000_000c, 0, 0]), Some((0x1000, false)));
        assert_eq!(find([0x7000_0000_000c, 0, 0x7000_0000_0010]), Some((0x1010, true)), "it is sure");
        // Tables of functions keep their addresses. The other words are far from variables.
        assert_eq!(find([0x7000_0000_0020, 0x6fff_0000_0000, u64::MAX]), None);
    }

    #[test]
    fn words_are_looked_for_where_they_are_aligned() {
        let word = bytes(&[0x7000_0000_0010]);
        let unaligned = [&[0; 3][..], &word].concat();
        assert_eq!(pointers().find(0x1005, &unaligned).map(|found| found.at), Some(0x1008));
        assert_eq!(pointers().find(0x1000, &unaligned), None);
        assert_eq!(pointers().find(0x1005, &unaligned[..2]), None);
        assert_eq!(VariablePointers::of(&[]).find(0x1000, &word), None);
    }
}
