//! The annotations of buffers that the application has made.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::tolerance::Annotation;
use mneme_recording::manifest::AnnotatedPart;

/// Annotations of whole allocations and of ranges. That of a range overrides that of its allocation.
#[derive(Debug, Default, PartialEq)]
pub struct Annotated {
    /// By the annotated address, which may lie anywhere in the allocation.
    whole: BTreeMap<u64, Annotation>,
    /// Disjoint ranges: by the first address, the end and the annotation.
    ranges: BTreeMap<u64, (u64, Annotation)>,
}

impl Annotated {
    /// Removes and returns the ranges in a range. The rest of those that are longer stays.
    fn cut(&mut self, addresses: Range<u64>) -> BTreeMap<u64, (u64, Annotation)> {
        let mut removed = BTreeMap::new();
        while let Some((start, (end, _))) = self.ranges.range(..addresses.end).next_back()
            && *end > addresses.start
        {
            let (start, end) = (*start, *end);
            let (_, annotation) = self.ranges.remove(&start).expect("just found");
            if end > addresses.end {
                self.ranges.insert(addresses.end, (end, annotation.clone()));
            }
            if start < addresses.start {
                self.ranges.insert(start, (addresses.start, annotation.clone()));
            }
            removed.insert(start.max(addresses.start), (end.min(addresses.end), annotation));
        }
        removed
    }
}

/// The annotations of a process.
#[derive(Default)]
pub struct Annotations(Mutex<Annotated>);

/// The annotations of this process.
pub static ANNOTATIONS: Annotations = Annotations::new();

impl Annotations {
    pub const fn new() -> Self {
        Self(Mutex::new(Annotated { whole: BTreeMap::new(), ranges: BTreeMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Annotated> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Annotates the allocation that contains an address, or removes its annotation.
    pub fn set(&self, address: u64, annotation: Option<Annotation>) {
        match annotation {
            Some(annotation) => self.lock().whole.insert(address, annotation),
            None => self.lock().whole.remove(&address),
        };
    }

    /// Annotates a range in place of what is annotated there, or only removes that.
    pub fn set_range(&self, addresses: Range<u64>, annotation: Option<Annotation>) {
        if addresses.is_empty() {
            return;
        }
        let mut annotated = self.lock();
        annotated.cut(addresses.clone());
        if let Some(annotation) = annotation {
            annotated.ranges.insert(addresses.start, (addresses.end, annotation));
        }
    }

    /// The annotation of an allocation, which is that of the lowest annotated address in it, and those of its ranges.
    pub fn of(&self, address: u64, size: u64) -> (Option<Annotation>, Vec<AnnotatedPart>) {
        let annotated = self.lock();
        let addresses = address..address.saturating_add(size);
        let whole = annotated.whole.range(addresses.clone()).next().map(|(_, annotation)| annotation.clone());
        let before = annotated.ranges.range(..address).next_back();
        let part = |(start, (end, annotation)): (&u64, &(u64, Annotation))| {
            let (start, end) = ((*start).max(addresses.start), (*end).min(addresses.end));
            (start < end).then(|| AnnotatedPart {
                offset: start - address,
                size: end - start,
                annotation: annotation.clone(),
            })
        };
        (whole, before.into_iter().chain(annotated.ranges.range(addresses.clone())).filter_map(part).collect())
    }

    /// Removes and returns the annotations in an allocation.
    pub fn take(&self, address: u64, size: u64) -> Annotated {
        let addresses = address..address.saturating_add(size);
        let mut annotated = self.lock();
        let whole: Vec<u64> = annotated.whole.range(addresses.clone()).map(|(address, _)| *address).collect();
        Annotated {
            whole: whole.into_iter().filter_map(|address| annotated.whole.remove_entry(&address)).collect(),
            ranges: annotated.cut(addresses),
        }
    }

    pub fn put_back(&self, taken: Annotated) {
        let mut annotated = self.lock();
        annotated.whole.extend(taken.whole);
        annotated.ranges.extend(taken.ranges);
    }

    /// Removes the annotations of a freed allocation, because its addresses may be reused.
    pub fn forget(&self, address: u64, size: u64) {
        drop(self.take(address, size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(tag: &str) -> Option<Annotation> {
        Some(Annotation { tag: tag.into(), ..Annotation::default() })
    }

    /// The offsets and tags of the ranges in 100 bytes.
    fn ranges(annotations: &Annotations) -> Vec<(u64, u64, String)> {
        let (_, parts) = annotations.of(0x1000, 100);
        parts.into_iter().map(|part| (part.offset, part.range().end, part.annotation.tag)).collect()
    }

    #[test]
    fn an_annotation_lasts_until_its_memory_is_freed() {
        let annotations = Annotations::new();
        annotations.set(0x1008, tagged("pressure"));
        assert_eq!(annotations.of(0x1000, 64).0, tagged("pressure"), "a pointer into the allocation counts");
        assert_eq!(annotations.of(0x1040, 64).0, None);
        annotations.set_range(0x1000..0x1020, tagged("ids"));
        assert_eq!(annotations.of(0x1000, 64).0, tagged("pressure"), "a range leaves the allocation's");
        let taken = annotations.take(0x1000, 64);
        assert_eq!(annotations.of(0x1000, 64), (None, Vec::new()));
        annotations.put_back(taken);
        assert_eq!((annotations.of(0x1000, 64).0, ranges(&annotations).len()), (tagged("pressure"), 1));
        annotations.set(0x1008, None);
        assert_eq!(annotations.of(0x1000, 64).0, None);
    }

    #[test]
    fn the_last_annotation_of_a_byte_stays() {
        let annotations = Annotations::new();
        annotations.set_range(0x1000..0x1030, tagged("a"));
        annotations.set_range(0x1030..0x1040, tagged("b"));
        annotations.set_range(0x1010..0x1018, tagged("c"));
        annotations.set_range(0x1028..0x1038, None);
        let named = |found: &[(u64, u64, &str)]| {
            found.iter().map(|(start, end, tag)| (*start, *end, (*tag).to_owned())).collect::<Vec<_>>()
        };
        let expected = [(0, 0x10, "a"), (0x10, 0x18, "c"), (0x18, 0x28, "a"), (0x38, 0x40, "b")];
        assert_eq!(ranges(&annotations), named(&expected));
        annotations.set_range(0x0ff0..0x1100, tagged("d"));
        assert_eq!(ranges(&annotations), named(&[(0, 100, "d")]), "each allocation has its share of a range");
        annotations.forget(0x1000, 100);
        assert_eq!(ranges(&annotations), []);
        assert_eq!(annotations.of(0x1064, 100).1.len(), 1, "the rest is in another allocation");
        annotations.set_range(0x1000..0x1000, tagged("e"));
        assert_eq!(ranges(&annotations), []);
    }
}
