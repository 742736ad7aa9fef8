//! Observations as text.

use mneme_model::observation::{Example, Fault, Faults, Finding, LastWrite, Site, SourceLine, Touched, TouchedRange};
use mneme_model::units;

/// How many findings are printed one by one.
const MOST_TOLD: usize = 50;

/// A paragraph for each finding, and a summary.
pub fn text(faults: &Faults) -> String {
    let mut text = String::new();
    for finding in faults.findings.iter().take(MOST_TOLD) {
        text += &paragraph(finding);
        text.push('\n');
    }
    let untold = faults.findings.len().saturating_sub(MOST_TOLD);
    if untold > 0 {
        text += &format!("and {untold} more, see standard output\n");
    }
    for access in faults.unwatched.iter().take(MOST_TOLD) {
        text += &format!("not watched: {access}\n");
    }
    if !faults.findings.is_empty() && !faults.has_source {
        text +=
            "build the program with -gline-tables-only (or -g) and record it again to see lines of the source here\n";
    }
    text += &match faults.findings.len() {
        0 => format!("no fault found in {} watched instructions", faults.watched),
        1 => format!("1 fault found in {} watched instructions", faults.watched),
        count => format!("{count} faults found in {} watched instructions", faults.watched),
    };
    text
}

fn paragraph(finding: &Finding) -> String {
    let site = &finding.site;
    let times = if finding.count == 1 { "once".to_owned() } else { format!("{} times", finding.count) };
    let mut text = format!("{}: {times}\n", headline(finding.fault, site));
    for example in &finding.examples {
        text += &format!(
            "  by thread {} of block {}{}\n",
            example.thread,
            example.block,
            where_it_is(finding.fault, example)
        );
        if let Some(other) = &example.other {
            text +=
                &format!("    after the {} of thread {}{}\n", other.site.access.name(), other.thread, at(&other.site));
        }
    }
    for (index, line) in site.source.iter().enumerate() {
        text += &format!("  {} {}\n", if index == 0 { "at" } else { "inlined at" }, source(line));
    }
    text += &format!("  in {}: {}\n", site.function, site.instruction);
    text
}

/// How much of the recorded memory was touched.
pub fn touched(touched: &Touched, recorded: u64) -> String {
    let sum = |wanted: fn(&&TouchedRange) -> bool| {
        units::bytes(touched.ranges.iter().filter(wanted).map(|range| range.bytes).sum())
    };
    let unwatched = touched.unwatched.iter().take(MOST_TOLD).map(|access| format!("not watched: {access}\n"));
    let flops = touched.arithmetic.map(|it| format!("; it performs {} floating-point operations", it.flops()));
    format!(
        "{}of {} of recorded memory the kernel reads {} and writes {}, in units of {}{}",
        unwatched.collect::<String>(),
        units::bytes(recorded),
        sum(|range| range.read),
        sum(|range| range.written),
        units::bytes(touched.granule),
        flops.unwrap_or_default()
    )
}

/// Which thread and instruction wrote an address.
pub fn last_write(write: &LastWrite) -> String {
    let value: String = write.value.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    let times =
        if write.writes == 1 { "the only write".to_owned() } else { format!("the last of {} writes", write.writes) };
    let mut text = format!(
        "{times}: thread {} of block {} wrote {} bytes at {}, and left 0x{value}",
        write.thread, write.block, write.written_bytes, write.address
    );
    for (index, line) in write.site.source.iter().enumerate() {
        text += &format!("\n  {} {}", if index == 0 { "at" } else { "inlined at" }, source(line));
    }
    text + &format!("\n  in {}: {}", write.site.function, write.site.instruction)
}

fn headline(fault: Fault, site: &Site) -> String {
    let access = site.access.name();
    let size = if site.bytes == 0 { String::new() } else { format!(" of {} bytes", site.bytes) };
    match fault {
        Fault::OutOfBounds => format!("out-of-bounds {access}{size}"),
        Fault::Uninitialised => format!("{access}{size} of uninitialised memory"),
        Fault::Race => format!("data race: {access}{size}"),
        Fault::Misaligned => format!("misaligned {access}{size}"),
    }
}

fn where_it_is(fault: Fault, example: &Example) -> String {
    let address = if example.address == "0x0" { String::new() } else { format!(" at {}", example.address) };
    match fault {
        Fault::Misaligned => format!("{address}, {}", example.place),
        _ => format!("{address}: {}", example.place),
    }
}

fn at(site: &Site) -> String {
    site.source.first().map_or_else(|| format!(": {}", site.instruction), |line| format!(" at {}", source(line)))
}

fn source(line: &SourceLine) -> String {
    let column = if line.column == 0 { String::new() } else { format!(":{}", line.column) };
    let function = if line.function.is_empty() { String::new() } else { format!(" in {}", line.function) };
    format!("{}:{}{column}{function}", line.file, line.line)
}
