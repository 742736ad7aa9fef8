//! What a session prints.

use std::collections::VecDeque;

/// Holds lines back until those of candidates before them have come: results arrive in the order of completion.
#[derive(Debug, Default)]
pub struct InOrder(VecDeque<(u64, Option<String>)>);

impl InOrder {
    /// A line will come.
    pub fn expect(&mut self, id: u64) {
        self.0.push_back((id, None));
    }

    pub fn add(&mut self, id: u64, line: String, mut print: impl FnMut(&str)) {
        if let Some((_, place)) = self.0.iter_mut().find(|(expected, _)| *expected == id) {
            *place = Some(line);
        }
        while let Some((_, Some(_))) = self.0.front() {
            if let Some((_, Some(line))) = self.0.pop_front() {
                print(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_in_order() {
        let mut order = InOrder::default();
        let mut printed = Vec::new();
        [7, 2, 9, 4, 3].iter().for_each(|id| order.expect(*id));
        for id in [2, 9, 7, 3, 4] {
            order.add(id, id.to_string(), |line| printed.push(line.to_owned()));
        }
        assert_eq!(printed, ["7", "2", "9", "4", "3"]);
    }
}
