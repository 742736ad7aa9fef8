//! The tolerance of each region.
//!
//! A rule for one buffer overrides the general rules. The order of precedence is:
//!
//! 1. `--tolerance BUFFER=…` on the command line (the last that names the buffer),
//! 2. the rules of `<static-hash>.tolerances.json` beside the recording,
//! 3. the application's annotation of the allocation at recording,
//! 4. no comparison, for memory that other processes or devices could write to while it was recorded, unless an
//!    argument leads into it,
//! 5. the configuration's `tolerance`, then `--tolerance …` without a buffer, then `--rtol` and `--atol`,
//! 6. equal bits.
//!
//! General rules (5) never apply to a buffer that is known to hold another type: a tolerance for floats applies to
//! every buffer of floats, in its own type, and not to integers. If the type of a buffer is unknown, the
//! configuration's and `--tolerance` apply as written, and `--rtol` and `--atol` do not. Bytes that pointers of several
//! types lead to are compared exactly.

use std::ops::Range;

use mneme_model::tolerance::{DataType, Norm, Threshold, Tolerance};
use mneme_recording::RecordingError;
use mneme_recording::leads::Leads;
use mneme_recording::manifest::MemoryState;
use mneme_recording::rules::{RuleMemory, RuleRegion, RuleTarget, RuledPart, Rules, ToleranceRule};
use mneme_system::arguments::ValueError;

use crate::recording::instance::RecordedInstance;
use crate::recording::snapshot::SnapshotRegion;
use crate::verify::comparison::{Comparison, RegionComparison};
use crate::verify::elements::{self, Elements};

/// The options of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToleranceOptions {
    /// `--tolerance`, in order.
    pub tolerances: Vec<ToleranceOption>,
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    /// `--dtype`: the type of all memory.
    pub dtype: Option<DataType>,
}

/// One `--tolerance`.
#[derive(Clone, Debug, PartialEq)]
pub struct ToleranceOption {
    /// `None` for all buffers.
    pub memory: Option<RuleMemory>,
    pub tolerance: Tolerance,
}

impl ToleranceOption {
    /// Parses `[BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]]`, `[BUFFER=]exact` or `BUFFER=ignore`.
    ///
    /// # Errors
    /// The text is malformed.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (memory, tolerance) = match text.split_once('=') {
            Some((memory, tolerance)) => (Some(read_memory(memory)?), tolerance),
            None => (None, text),
        };
        let tolerance = read_tolerance(tolerance)?;
        if tolerance.ignore && memory.is_none() {
            return Err("ignore needs a buffer: write BUFFER=ignore".into());
        }
        Ok(Self { memory, tolerance })
    }
}

/// Parses `BUFFER` or `BUFFER@OFFSET+BYTES`. Other text after an `@` belongs to a name.
fn read_memory(text: &str) -> Result<RuleMemory, ValueError> {
    let range = text.rsplit_once('@').and_then(|(target, range)| {
        let (offset, bytes) = range.split_once('+')?;
        Some((target, offset.parse().ok()?, bytes.parse().ok()?))
    });
    let Some((target, offset, bytes)) = range else { return read_target(text).map(RuleMemory::from) };
    let memory = RuleMemory { target: read_target(target)?, offset, bytes: Some(bytes) };
    memory.check()?;
    Ok(memory)
}

fn read_target(text: &str) -> Result<RuleTarget, ValueError> {
    let unknown =
        || format!("'{text}' does not name a buffer; write argument:N, tag:NAME, variable:NAME or address:0x…").into();
    let (kind, name) = text.split_once(':').ok_or_else(unknown)?;
    match kind {
        "argument" => name.parse().map(RuleTarget::Argument).map_err(|_| unknown()),
        "tag" => Ok(RuleTarget::Tag(name.into())),
        "variable" => Ok(RuleTarget::Variable(name.into())),
        "address" => {
            u64::from_str_radix(name.trim_start_matches("0x"), 16).map(RuleTarget::Address).map_err(|_| unknown())
        }
        _ => Err(unknown()),
    }
}

fn read_tolerance(text: &str) -> Result<Tolerance, ValueError> {
    match text {
        "exact" => return Ok(Tolerance::default()),
        "ignore" => return Ok(Tolerance::ignored()),
        _ => {}
    }
    let mut parts = text.split(':');
    let mut next = || parts.next();
    let dtype = next().unwrap_or_default();
    let dtype = DataType::ALL.into_iter().find(|it| it.name() == dtype).ok_or_else(|| {
        format!("'{dtype}' is not a type; use one of {}, exact or ignore", DataType::ALL.map(DataType::name).join(", "))
    })?;
    let threshold = next().ok_or("a threshold must follow the type, as in f32:1e-5")?;
    let threshold = threshold.parse().map_err(|_| format!("'{threshold}' is not a number"))?;
    let kind = match next() {
        None => Threshold::default(),
        Some(name) => Threshold::ALL
            .into_iter()
            .find(|it| it.name() == name)
            .ok_or_else(|| format!("'{name}' is not a kind of error; use absolute, relative or ulp"))?,
    };
    let norm = match next() {
        None => Norm::default(),
        Some(name) => Norm::ALL
            .into_iter()
            .find(|it| it.name() == name)
            .ok_or_else(|| format!("'{name}' is not a norm; use none, l1, l2 or linf"))?,
    };
    if let Some(rest) = next() {
        return Err(format!("'{rest}' is not allowed after the norm").into());
    }
    let tolerance = Tolerance { dtype, threshold, kind, norm, ignore: false };
    tolerance.check().map(|()| tolerance).map_err(|error| error.to_string().into())
}

/// The tolerances of a recording's regions, independent of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The parts of each region.
    regions: Vec<Vec<PartBounds>>,
    /// Address and size of each part that is not compared because others could write to it.
    left_out: Vec<(u64, u64)>,
    /// The address of each part that pointers of several types lead to.
    contested: Vec<u64>,
    /// The general rules; the first that applies decides.
    general: Vec<General>,
}

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PartBounds {
    /// Its offset in the region.
    offset: u64,
    address: u64,
    size: u64,
    elements: Elements,
    /// The rule for it alone.
    own: Option<Tolerance>,
}

impl PartBounds {
    /// The comparison by offset. The rest of an element that began before the part is compared exactly.
    fn with(self, comparison: Comparison) -> impl Iterator<Item = (u64, Comparison)> {
        let size = comparison.dtype().size() as u64;
        let starts_whole = self.offset == 0 || comparison.tolerance.ignore;
        let rest = if starts_whole { 0 } else { self.address.next_multiple_of(size) - self.address };
        let split = (rest > 0).then(|| (self.offset, Comparison::default()));
        split.into_iter().chain((rest < self.size).then(|| (self.offset + rest, comparison)))
    }
}

/// A tolerance for all regions that it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct General {
    comparison: Comparison,
    /// Whether it applies to regions of unknown type.
    unknown: bool,
    /// Whether it applies to all regions, whatever their type.
    forced: bool,
}

impl General {
    fn for_elements(&self, elements: Elements) -> Option<Comparison> {
        let own = self.comparison.tolerance.dtype;
        match elements {
            _ if self.forced => Some(self.comparison),
            Elements::Of(dtype) if dtype == own || (dtype.is_float() && own.is_float()) => {
                Some(Comparison { tolerance: Tolerance { dtype, ..self.comparison.tolerance }, ..self.comparison })
            }
            Elements::Unknown if self.unknown => Some(self.comparison),
            _ => None,
        }
    }
}

impl Bounds {
    /// Combines command line, rules and recording.
    ///
    /// # Errors
    /// The file of rules cannot be read.
    pub fn of(
        recorded: &RecordedInstance,
        regions: &[SnapshotRegion],
        options: &ToleranceOptions,
    ) -> Result<Self, RecordingError> {
        let mut rules = Rules::load(&recorded.database)?;
        let arguments = elements::argument_pointers(recorded);
        let elements = elements::of_regions(recorded, regions);
        let named = options.tolerances.iter();
        // The last rule decides.
        rules
            .rules
            .extend(named.filter_map(|it| Some(ToleranceRule { memory: it.memory.clone()?, tolerance: it.tolerance })));
        let (mut left_out, mut contested) = (Vec::new(), Vec::new());
        let moments = &recorded.moments;
        let of = |(region, stretches): (&SnapshotRegion, Vec<(u64, Elements)>)| {
            let may_be_others = region.shared
                && has_changed(region.address, &moments.prologue, &moments.epilogue)
                && !is_led_to(range(region), regions.iter().map(range), &moments.prologue);
            let starts: Vec<u64> = stretches.iter().map(|(start, _)| *start).collect();
            let part = |RuledPart { offset, size, annotated, tolerance }: RuledPart<'_>| {
                let address = region.address + offset;
                let elements = match annotated.map(|part| part.annotation.tolerance.dtype) {
                    Some(dtype) if dtype != DataType::default() => Elements::Of(dtype),
                    _ => stretches[starts.partition_point(|start| *start <= offset) - 1].1,
                };
                if tolerance.is_none() && may_be_others {
                    left_out.push((address, size));
                }
                if tolerance.is_none() && elements == Elements::Contested {
                    contested.push(address);
                }
                let own = tolerance.or_else(|| may_be_others.then(Tolerance::ignored));
                PartBounds { offset, address, size, elements, own }
            };
            rules.divide(&place(region), &starts, &arguments).into_iter().map(part).collect()
        };
        let regions = regions.iter().zip(elements).map(of).collect();
        Ok(Self { regions, general: general(options), left_out, contested })
    }

    /// A sentence on the memory that is compared exactly in spite of a tolerance, because pointers of several types
    /// lead there.
    pub fn contested_text(&self) -> Option<String> {
        let places: Vec<String> = self.contested.iter().map(|address| format!("{address:#x}")).collect();
        (!self.general.is_empty() && !places.is_empty()).then(|| {
            format!(
                "memory at {} is compared exactly: arguments of several types point there, so its type is unknown; \
                 --tolerance argument:N=TYPE:THRESHOLD gives it one",
                places.join(", ")
            )
        })
    }

    /// A sentence on the memory that is not compared because other processes or devices could write to it.
    pub fn left_out_text(&self) -> Option<String> {
        let bytes: u64 = self.left_out.iter().map(|(_, size)| size).sum();
        let places: Vec<String> = self.left_out.iter().map(|(address, _)| format!("{address:#x}")).collect();
        (!places.is_empty()).then(|| {
            format!(
                "{bytes} bytes at {} are not compared: other processes or devices could write to them while they were recorded, and no argument leads there",
                places.join(", ")
            )
        })
    }

    /// The comparison of each region under a configuration.
    pub fn comparisons(&self, configured: Option<Tolerance>) -> Vec<RegionComparison> {
        let configured = configured.map(|tolerance| General {
            comparison: Comparison { tolerance, ..Comparison::default() },
            unknown: true,
            forced: false,
        });
        let of = |part: &PartBounds| {
            let comparison = match part.own {
                Some(tolerance) => Comparison { tolerance, ..Comparison::default() },
                None => configured
                    .iter()
                    .chain(&self.general)
                    .find_map(|general| general.for_elements(part.elements))
                    .unwrap_or_default(),
            };
            part.with(Comparison { shown: part.elements.dtype(), ..comparison })
        };
        self.regions.iter().map(|parts| RegionComparison::new(parts.iter().flat_map(of).collect())).collect()
    }
}

/// Whether the region at an address differs between the moments. Unchanged memory is compared even if others could have
/// changed it.
fn has_changed(address: u64, prologue: &MemoryState, epilogue: &MemoryState) -> bool {
    let chunks = |state: &MemoryState| {
        state.regions().find(|region| region.address == address).map(|region| region.chunks.to_vec())
    };
    chunks(prologue) != chunks(epilogue)
}

/// Whether an argument, or a part of one, is an address that leads into a region. `all` are all regions.
fn is_led_to(region: Range<u64>, all: impl Iterator<Item = Range<u64>>, prologue: &MemoryState) -> bool {
    let leads = Leads::to(&[region], &all.collect::<Vec<_>>());
    let words = prologue.header.arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0);
    words.map(|word| u64::from_le_bytes(*word)).any(|word| !leads.of(word).is_empty())
}

/// The addresses of a region.
fn range(region: &SnapshotRegion) -> Range<u64> {
    region.address..region.address.saturating_add(region.size)
}

/// A buffer that a `--tolerance` names and the recording lacks.
pub fn stray<'a>(
    recorded: &RecordedInstance,
    regions: &[SnapshotRegion],
    options: &'a ToleranceOptions,
) -> Option<&'a RuleMemory> {
    let arguments = elements::argument_pointers(recorded);
    let mut named = options.tolerances.iter().filter_map(|entry| entry.memory.as_ref());
    named.find(|memory| !regions.iter().any(|region| memory.names(&place(region), &arguments)))
}

/// A region in the form that rules use.
pub fn place(region: &SnapshotRegion) -> RuleRegion<'_> {
    RuleRegion {
        variable: region.variable.as_deref(),
        tag: &region.tag,
        address: region.address,
        size: region.size,
        tolerance: region.tolerance,
        parts: &region.annotated,
    }
}

fn general(options: &ToleranceOptions) -> Vec<General> {
    let stated = options.tolerances.iter().rev().filter(|entry| entry.memory.is_none()).map(|entry| General {
        comparison: Comparison { tolerance: entry.tolerance, ..Comparison::default() },
        unknown: true,
        forced: false,
    });
    let mut general: Vec<General> = stated.collect();
    if options.rtol.is_some() || options.atol.is_some() {
        let dtype = options.dtype.unwrap_or(DataType::F64);
        let tolerance = match options.rtol {
            Some(threshold) => Tolerance { dtype, threshold, kind: Threshold::Relative, ..Tolerance::default() },
            None => Tolerance { dtype, threshold: options.atol.unwrap_or_default(), ..Tolerance::default() },
        };
        let slack = if options.rtol.is_some() { options.atol.unwrap_or_default() } else { 0.0 };
        let comparison = Comparison { tolerance, slack, shown: None };
        general.push(General { comparison, unknown: false, forced: options.dtype.is_some() });
    }
    general
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::hash::recorded_id;
    use mneme_recording::manifest::{Allocation, AllocationKind, Header, RecordedArgument};

    fn entry(text: &str) -> ToleranceOption {
        ToleranceOption::parse(text).unwrap()
    }

    fn bounds(dtype: Option<DataType>, own: Option<Tolerance>, options: &ToleranceOptions) -> Bounds {
        let elements = dtype.map_or(Elements::Unknown, Elements::Of);
        Bounds {
            regions: vec![vec![PartBounds { offset: 0, address: 0x1000, size: 64, elements, own }]],
            general: general(options),
            ..Bounds::default()
        }
    }

    fn under(dtype: Option<DataType>, options: &ToleranceOptions) -> Tolerance {
        bounds(dtype, None, options).comparisons(None)[0].part(0).tolerance
    }

    #[test]
    fn what_several_types_point_to_is_compared_exactly() {
        let options = ToleranceOptions { tolerances: vec![entry("f32:1")], ..ToleranceOptions::default() };
        let part = |offset, elements| PartBounds { offset, address: 0x1000 + offset, size: 16, elements, own: None };
        let parts = vec![part(0, Elements::Of(DataType::F64)), part(16, Elements::Contested)];
        let bounds =
            Bounds { regions: vec![parts], general: general(&options), contested: vec![0x1010], ..Bounds::default() };
        let region = &bounds.comparisons(None)[0];
        assert_eq!((region.part(0).tolerance.dtype, region.part(1).is_exact()), (DataType::F64, true));
        assert!(bounds.contested_text().unwrap().contains("0x1010"));
        let strict = Bounds { general: Vec::new(), ..bounds };
        assert_eq!(strict.contested_text(), None, "everything is compared exactly");
    }

    #[test]
    fn the_rest_of_a_split_element_is_compared_exactly() {
        let own = Tolerance { dtype: DataType::F64, threshold: 1.0, ..Tolerance::default() };
        let part = |offset, size, own| PartBounds {
            offset,
            address: 0x1000 + offset,
            size,
            elements: Elements::Unknown,
            own: Some(own),
        };
        let parts = vec![part(0, 4, own), part(4, 8, Tolerance::ignored()), part(12, 20, own), part(32, 4, own)];
        let bounds = Bounds { regions: vec![parts], ..Bounds::default() };
        let region = &bounds.comparisons(None)[0];
        let found: Vec<_> = region.cuts(0, 36).map(|(number, bytes)| (bytes, region.part(number).tolerance)).collect();
        let exact = Tolerance::default();
        assert_eq!(found, [(0..4, own), (4..12, Tolerance::ignored()), (12..16, exact), (16..36, own)]);
    }

    #[test]
    fn tolerances_are_read() {
        let relative = Tolerance {
            dtype: DataType::F64,
            threshold: 1e-9,
            kind: Threshold::Relative,
            norm: Norm::L2,
            ignore: false,
        };
        assert_eq!(
            entry("argument:1=f64:1e-9:relative:l2"),
            ToleranceOption { memory: Some(RuleTarget::Argument(1).into()), tolerance: relative }
        );
        assert_eq!(
            entry("f32:0.5").tolerance,
            Tolerance { dtype: DataType::F32, threshold: 0.5, ..Tolerance::default() }
        );
        assert_eq!(
            entry("address:0x10=ignore"),
            ToleranceOption { memory: Some(RuleTarget::Address(16).into()), tolerance: Tolerance::ignored() }
        );
        assert_eq!(
            entry("tag:a b=exact"),
            ToleranceOption { memory: Some(RuleTarget::Tag("a b".into()).into()), tolerance: Tolerance::default() }
        );
        let memory = |text| entry(text).memory.unwrap().to_string();
        assert_eq!(memory("argument:1@8+16=ignore"), "16 bytes at offset 8 of argument 1");
        assert_eq!(memory("tag:a@b+c=ignore"), "tag a@b+c");
        assert_eq!(entry("variable:x=i32:2:ulp").tolerance.kind, Threshold::Ulp);
        for wrong in [
            "", "f32", "f80:1", "f32:x", "f32:-1", "f32:1:near", "f32:1:ulp:l3", "f32:1:ulp:l1:x", "ignore",
            "argument:x=exact", "3=exact", "argument:1@8+0=ignore", "@0+8=ignore",
        ] {
            assert!(ToleranceOption::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_in_a_structure_leads_into_memory_too() {
        let mut prologue = MemoryState::default();
        let bytes = [1u64, 0x1000].iter().flat_map(|word| word.to_le_bytes()).collect();
        prologue.header.arguments.push(RecordedArgument { offset: 0, bytes });
        let (far, near) = (0x10_0000..0x10_1000, 0x1001..0x2000);
        let is_led =
            |region: &Range<u64>, all: &[Range<u64>]| is_led_to(region.clone(), all.iter().cloned(), &prologue);
        assert!(
            is_led(&(0x1000..0x1008), &[])
                && is_led(&(0xff9..0x1001), &[])
                && is_led(&near, std::slice::from_ref(&near))
        );
        assert!(!is_led(&far, std::slice::from_ref(&far)));
        assert!(!is_led(&(0x3000..0x4000), &[0xff0..0x1010, 0x3000..0x4000]), "it is an address in other memory");
        let bounds = Bounds { left_out: vec![(0x1000, 8), (0x2000, 16)], ..Bounds::default() };
        assert!(bounds.left_out_text().unwrap().starts_with("24 bytes at 0x1000, 0x2000 are not compared"));
        assert_eq!(Bounds::default().left_out_text(), None);
    }

    #[test]
    fn memory_is_changed_where_its_chunks_are() {
        let state = |first: u8, second: u8| {
            let allocation = |address| Allocation {
                address,
                size: 8,
                kind: AllocationKind::Vendor,
                shared: true,
                ..Allocation::default()
            };
            let header = Header { allocations: vec![allocation(0x1000), allocation(0x2000)], ..Header::default() };
            MemoryState { header, chunks: [first, second].map(|byte| vec![recorded_id(&[byte; 8])]).into() }
        };
        let (before, after) = (state(1, 2), state(1, 3));
        assert!(!has_changed(0x1000, &before, &after) && has_changed(0x2000, &before, &after));
        assert!(!has_changed(0x2000, &before, &before));
    }

    #[test]
    fn what_is_said_of_all_buffers_leaves_out_those_that_hold_something_else() {
        let stated = ToleranceOptions { tolerances: vec![entry("f32:1e-5:relative")], ..ToleranceOptions::default() };
        assert_eq!(under(Some(DataType::F64), &stated).dtype, DataType::F64, "each in its own type");
        assert_eq!(under(None, &stated).dtype, DataType::F32);
        assert!(under(Some(DataType::I32), &stated).is_exact());
        let quick = ToleranceOptions { rtol: Some(1e-5), atol: Some(1e-8), ..ToleranceOptions::default() };
        assert!(under(None, &quick).is_exact());
        let comparison = *bounds(Some(DataType::F32), None, &quick).comparisons(None)[0].part(0);
        assert_eq!(
            (comparison.tolerance.dtype, comparison.tolerance.threshold, comparison.slack),
            (DataType::F32, 1e-5, 1e-8)
        );
        let forced = ToleranceOptions { dtype: Some(DataType::F32), ..quick };
        assert_eq!(under(None, &forced).dtype, DataType::F32);
    }

    #[test]
    fn what_is_said_of_one_buffer_goes_first_and_then_the_configuration() {
        let options = ToleranceOptions { tolerances: vec![entry("f32:1")], ..ToleranceOptions::default() };
        let own = Tolerance { dtype: DataType::F32, threshold: 2.0, ..Tolerance::default() };
        let configured = Tolerance { dtype: DataType::F32, threshold: 3.0, ..Tolerance::default() };
        let threshold = |bounds: &Bounds, configured| bounds.comparisons(configured)[0].part(0).tolerance.threshold;
        assert_eq!(threshold(&bounds(Some(DataType::F32), Some(own), &options), Some(configured)), 2.0);
        let general = bounds(Some(DataType::F32), None, &options);
        assert_eq!((threshold(&general, Some(configured)), threshold(&general, None)), (3.0, 1.0));
    }
}
