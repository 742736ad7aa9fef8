//! Dominance: fronts of points with several objectives, and crowding within a front.
//!
//! Deb, Pratap, Agarwal and Meyarivan, "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002.

use std::cmp::Ordering;

/// Whether `a` is no worse than `b` in any objective and better in one; smaller is better.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b)
}

/// The number of each point's front: 0 for points that no other dominates, 1 for points that only those dominate, ….
pub fn fronts(points: &[&[f64]]) -> Vec<usize> {
    if points.first().is_some_and(|point| point.len() == 1) {
        // With one objective, equal values share a front.
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|a, b| points[*a][0].total_cmp(&points[*b][0]));
        let mut fronts = vec![0; points.len()];
        for pair in order.windows(2) {
            fronts[pair[1]] = fronts[pair[0]] + usize::from(points[pair[0]][0] < points[pair[1]][0]);
        }
        return fronts;
    }
    let mut fronts = vec![usize::MAX; points.len()];
    let mut left: Vec<usize> = (0..points.len()).collect();
    for number in 0.. {
        if left.is_empty() {
            break;
        }
        let (front, rest): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|place| !left.iter().any(|other| dominates(points[*other], points[**place])));
        for place in front {
            fronts[place] = number;
        }
        left = rest;
    }
    fronts
}

/// The distance between each point's neighbours in one front, summed over the objectives; infinite at the ends.
pub fn crowding(front: &[&[f64]]) -> Vec<f64> {
    let mut room = vec![0.0; front.len()];
    let objectives = front.first().map_or(0, |point| point.len());
    for objective in 0..objectives {
        let mut order: Vec<usize> = (0..front.len()).collect();
        order.sort_by(|a, b| front[*a][objective].total_cmp(&front[*b][objective]));
        let (first, last) = (order[0], order[order.len() - 1]);
        let extent = front[last][objective] - front[first][objective];
        room[first] = f64::INFINITY;
        room[last] = f64::INFINITY;
        if extent > 0.0 {
            for neighbours in order.windows(3) {
                room[neighbours[1]] += (front[neighbours[2]][objective] - front[neighbours[0]][objective]) / extent;
            }
        }
    }
    room
}

/// The points' indices, best first: by front, and within a front by crowding, with more room first.
pub fn ranking(points: &[&[f64]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    if points.first().is_some_and(|point| point.len() == 1) {
        order.sort_by(|a, b| points[*a][0].total_cmp(&points[*b][0]));
        return order;
    }
    let fronts = fronts(points);
    let mut room = vec![0.0; points.len()];
    for number in 0..=fronts.iter().copied().max().unwrap_or(0) {
        let members: Vec<usize> = (0..points.len()).filter(|place| fronts[*place] == number).collect();
        let front: Vec<&[f64]> = members.iter().map(|place| points[*place]).collect();
        for (place, value) in members.iter().zip(crowding(&front)) {
            room[*place] = value;
        }
    }
    order.sort_by(|a, b| fronts[*a].cmp(&fronts[*b]).then(room[*b].total_cmp(&room[*a])).then(Ordering::Equal));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fronts_by_hand() {
        let points: Vec<&[f64]> =
            vec![&[1.0, 5.0], &[2.0, 2.0], &[5.0, 1.0], &[3.0, 3.0], &[2.0, 5.0], &[6.0, 6.0], &[2.0, 2.0]];
        assert_eq!(fronts(&points), [0, 0, 0, 1, 1, 2, 0]);
        assert_eq!(fronts(&[&[3.0], &[1.0], &[3.0], &[2.0]]), [2, 0, 2, 1]);
    }

    #[test]
    fn crowding_by_hand() {
        let front: Vec<&[f64]> = vec![&[0.0, 10.0], &[2.0, 4.0], &[10.0, 0.0]];
        assert_eq!(crowding(&front), [f64::INFINITY, 2.0, f64::INFINITY]);
        assert_eq!(ranking(&[&[3.0, 3.0], &[0.0, 10.0], &[2.0, 4.0], &[10.0, 0.0], &[3.0, 3.5]]), [1, 3, 0, 2, 4]);
    }

    proptest! {
        #[test]
        fn a_front_is_what_the_fronts_before_leave_undominated(
            values in proptest::collection::vec((0u8..6, 0u8..6), 1..40),
        ) {
            let points: Vec<[f64; 2]> = values.iter().map(|(a, b)| [f64::from(*a), f64::from(*b)]).collect();
            let points: Vec<&[f64]> = points.iter().map(|point| point.as_slice()).collect();
            let fronts = fronts(&points);
            for (place, front) in fronts.iter().enumerate() {
                let dominators: Vec<usize> = (0..points.len())
                    .filter(|other| dominates(points[*other], points[place]))
                    .map(|other| fronts[other])
                    .collect();
                prop_assert_eq!(*front, dominators.iter().max().map_or(0, |deepest| deepest + 1));
            }
        }
    }
}
