//! Tests every form in the table of instructions with edge values, against a model.
//!
//! On the CPU device all forms are lifted, and compiled at several optimisation levels. With `MNEME_TEST_DEVICE=cuda`,
//! the driver's own code for each form is also compared with the model, and lifted code for the GPU at the same levels.
//! `MNEME_PTX_FORMS` limits the forms to instructions with this prefix, and `MNEME_PTX_ROWS` sets the number of inputs.

mod exact;
pub mod forms;
mod model;

use std::fmt::Write as _;

use mneme_builds::Target;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_ptx::instructions::row;
use mneme_ptx::lift_program;

use super::device::Driver;
use super::random::Random;
use super::{Object, Parameters, object};
use crate::cpu::tests::table;
use crate::{BuildRequest, InputCode, build};
use forms::{Form, forms};
use model::{Opcode, Want};

const HEADER: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";
const LEVELS: [&str; 3] = ["default<O0>", "default<O1>", "default<O3>"];
const WARP: usize = 32;
/// Words in a row of inputs, and of outputs. An instruction's memory begins at [`MEMORY`].
const WORDS: usize = 16;
const MEMORY: usize = 12;
/// The words with the carry flag's initial and final value.
const CARRY: usize = 11;
/// The contents of constant memory.
const CONSTANTS: [u8; 32] = *b"constant: \x80\xff\x7f\0 and more of them\xfe";

/// The reason for a form without a model, or without one on the CPU device.
pub fn left_out(form: &Form) -> Option<&'static str> {
    let (opcode, _) = form.statements.first()?;
    let of_the_device = OF_THE_DEVICE.contains(&Opcode::of(opcode).name);
    reason(opcode)
        .or(of_the_device.then_some("they are compared on a GPU; on the CPU device: `tests/tests/e2e/nvcc.rs`"))
}

const CLUSTERS: &str = "they need a cluster: `tests/apps/clusters.cu`";

fn reason(opcode: &str) -> Option<&'static str> {
    let op = Opcode::of(opcode);
    Some(match op.name {
        "trap" | "brkpt" => "they end the kernel, or stop it for a debugger",
        "tex" | "tld4" | "suld" | "sust" | "txq" | "suq" => {
            "they need an image, which a driver makes: `tests/apps/textures.cu`"
        }
        "wmma" => "the manual leaves open which lane holds which number: `tests/tests/e2e/tensors.rs`",
        "mbarrier" | "cp" => "their effect is on other threads and later instructions: `tests/apps/mbarriers.cu`",
        "bar" if op.has("arrive") => "its effect is on other threads: `cpu/src/execution/tests.rs`",
        "mapa" | "getctarank" => CLUSTERS,
        "barrier" if op.has("cluster") => CLUSTERS,
        "cvta" | "isspacep" => {
            "their operands are addresses: `compiler/src/lifting/tests`, `compiler/src/cpu/ptx/tests.rs`"
        }
        "griddepcontrol" | "setmaxnreg" | "applypriority" | "prefetch" | "prefetchu" | "pmevent" | "nanosleep" => {
            "they have no effect on values"
        }
        "wgmma" | "tcgen05" | "movmatrix" => "the CPU device refuses them, and lifting leaves them as they are",
        _ => return None,
    })
}

/// A kernel with one statement of a form.
struct Case {
    opcode: String,
    /// The statement with separate registers for all operands.
    text: String,
    /// Kinds of registers.
    outputs: Vec<char>,
    inputs: Vec<char>,
    /// Numbers in the text that are operands, by their index among the inputs.
    numbers: Vec<(usize, u64)>,
    has_memory: bool,
}

impl Case {
    fn of(opcode: &str, statement: &str) -> Self {
        let operands = statement[opcode.len()..].trim_end_matches(';');
        let op = Opcode::of(opcode);
        let first_is_written = match row(op.name).writes {
            mneme_ptx::instructions::Writes::First => !operands.trim_start().starts_with('['),
            mneme_ptx::instructions::Writes::Nothing => false,
            mneme_ptx::instructions::Writes::With(word) => op.has(word),
        };
        let mut case = Self {
            opcode: opcode.to_owned(),
            text: opcode.to_owned(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            numbers: Vec::new(),
            has_memory: false,
        };
        let (mut depth, mut written, mut bracket) = (0, first_is_written, false);
        for word in operands.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let (name, rest) = word.split_at(word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len()));
            match name {
                "p" | "h" | "r" | "l" | "q" if bracket => {
                    case.text.push_str(if name == "l" { "%place" } else { "%narrow" });
                    case.has_memory = true;
                }
                "p" | "h" | "r" | "l" | "q" => {
                    let kind = name.chars().next().unwrap_or('r');
                    let (list, letter) = if written { (&mut case.outputs, 'o') } else { (&mut case.inputs, 'i') };
                    let _ = write!(case.text, "%{letter}{}", list.len());
                    list.push(kind);
                }
                number => {
                    case.text.push_str(number);
                    if let (Some(value), false) = (parsed(number), written) {
                        case.numbers.push((case.inputs.len() + case.numbers.len(), value));
                    }
                }
            }
            case.text.push_str(rest);
            match rest {
                "{" => depth += 1,
                "}" => depth -= 1,
                "[" => bracket = true,
                "]" => bracket = false,
                "," if depth == 0 => written = false,
                _ => {}
            }
        }
        case.text.push(';');
        case
    }

    fn op(&self) -> Opcode<'_> {
        let mut op = Opcode::of(&self.opcode);
        if self.opcode.starts_with("mov") && self.outputs.len() == 2 {
            op.words.insert(0, "unpack");
        }
        op
    }

    fn space(&self) -> &'static str {
        let op = self.op();
        let spaces = ["global", "shared", "const"];
        spaces.into_iter().find(|space| op.has(space)).unwrap_or(if self.opcode.contains("matrix") {
            "matrix"
        } else {
            "generic"
        })
    }

    /// The kernel: each thread reads a row of inputs, and writes one of outputs.
    fn kernel(&self, name: &str) -> String {
        let op = self.op();
        let mut text = format!(
            ".visible .entry {name}(.param .u64 in, .param .u64 out) {{\n\
             .reg .b64 %in, %out, %row, %place, %word, %low, %high; .reg .b32 %t, %narrow, %carry; .reg .pred %set;\n"
        );
        for (letter, kinds) in [('o', &self.outputs), ('i', &self.inputs)] {
            for (number, kind) in kinds.iter().enumerate() {
                let ty = match kind {
                    'p' => "pred",
                    'h' => "b16",
                    'r' => "b32",
                    'l' => "b64",
                    _ => "b128",
                };
                let _ = writeln!(text, ".reg .{ty} %{letter}{number};");
            }
        }
        text.push_str(
            "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %ctaid.x; mov.u32 %carry, %ntid.x;\n\
             mov.u32 %narrow, %tid.x; mad.lo.u32 %t, %t, %carry, %narrow; mul.wide.u32 %row, %t, 128;\n\
             cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;\n\
             add.s64 %in, %in, %row; add.s64 %out, %out, %row;\n",
        );
        let (base, access) = match self.space() {
            "shared" | "matrix" => ("mov.u64 %place, memory; mad.wide.u32 %place, %narrow, 32, %place;", "shared"),
            "const" => ("mov.u64 %place, constants;", "const"),
            _ => ("add.s64 %place, %out, 96;", "global"),
        };
        if self.has_memory {
            let _ = writeln!(text, "{base} cvt.u32.u64 %narrow, %place;");
            if access != "const" {
                for word in 0..4 {
                    let _ = writeln!(
                        text,
                        "ld.global.u64 %word, [%in+{}]; st.{access}.u64 [%place+{}], %word;",
                        8 * (MEMORY + word),
                        8 * word
                    );
                }
            }
            text.push_str(match self.space() {
                "generic" => "cvta.global.u64 %place, %place;\n",
                "matrix" if !op.has("shared") => "cvta.shared.u64 %place, %place;\n",
                _ => "",
            });
        }
        for (number, kind) in self.inputs.iter().enumerate() {
            let place = format!("[%in+{}]", 8 * number);
            let _ = match kind {
                'p' => writeln!(text, "ld.global.u64 %word, {place}; setp.ne.u64 %i{number}, %word, 0;"),
                'h' => writeln!(text, "ld.global.b16 %i{number}, {place};"),
                'r' => writeln!(text, "ld.global.b32 %i{number}, {place};"),
                _ => writeln!(text, "ld.global.b64 %i{number}, {place};"),
            };
        }
        let is_collective = row(op.name).collective;
        if is_collective {
            text.push_str("bar.sync 0;\n");
        }
        if op.takes_carry() {
            let _ = writeln!(text, "ld.global.b32 %carry, [%in+{}];", 8 * CARRY);
            text.push_str(match op.name {
                "subc" => "sub.cc.u32 %carry, 0, %carry;\n",
                _ => "add.cc.u32 %carry, %carry, -1;\n",
            });
        }
        let _ = writeln!(text, "{}", self.text);
        if op.has("cc") {
            text.push_str(if op.name.starts_with("sub") { "subc" } else { "addc" });
            let _ = writeln!(text, ".u32 %carry, 0, 0; st.global.u32 [%out+{}], %carry;", 8 * CARRY);
        }
        if is_collective {
            text.push_str("bar.sync 0;\n");
        }
        for (number, kind) in self.outputs.iter().enumerate() {
            let place = format!("[%out+{}]", 8 * number);
            let _ = match kind {
                'p' => writeln!(text, "selp.u64 %word, 1, 0, %o{number}; st.global.u64 {place}, %word;"),
                'h' => writeln!(text, "st.global.b16 {place}, %o{number};"),
                'r' => writeln!(text, "st.global.b32 {place}, %o{number};"),
                'l' => writeln!(text, "st.global.b64 {place}, %o{number};"),
                _ => writeln!(
                    text,
                    "mov.b128 {{%low, %high}}, %o{number}; st.global.b64 {place}, %low;\n\
                     st.global.b64 [%out+{}], %high;",
                    8 * number + 8
                ),
            };
        }
        if self.has_memory && matches!(self.space(), "shared" | "matrix") {
            text.push_str(
                "mov.u32 %narrow, %tid.x; mov.u64 %place, memory; mad.wide.u32 %place, %narrow, 32, %place;\n",
            );
            for word in 0..4 {
                let _ = writeln!(
                    text,
                    "ld.shared.u64 %word, [%place+{}]; st.global.u64 [%out+{}], %word;",
                    8 * word,
                    8 * (MEMORY + word)
                );
            }
        }
        text.push_str("ret; }\n");
        text
    }

    /// A value for an input.
    fn value(&self, number: usize, random: &mut Random) -> u64 {
        let op = self.op();
        match (op.name, number) {
            // The mask of lanes, and thread numbers, match the running threads.
            ("shfl" | "match" | "vote" | "redux", number) if op.has("sync") && number + 1 == self.inputs.len() => {
                u64::from(u32::MAX)
            }
            ("elect", _) => u64::from(u32::MAX),
            ("bar" | "barrier", _) if op.has("warp") => u64::from(u32::MAX),
            ("bar" | "barrier", 0) if op.has("sync") => 1,
            ("bar" | "barrier", 1) if op.has("sync") => WARP as u64,
            // The manual numbers 32 bits.
            ("fns", 1) => random.below(32),
            ("match", 0) => random.below(3) & random.below(3),
            ("vote" | "bar" | "barrier", 0) => random.below(40).min(1),
            ("mma", _) => small(&op, number, random),
            // GPUs have other results than the manual for positions that need more than 8 bits.
            ("bfe", 1..) | ("bfi", 2..) => random.below(256),
            ("fns", 2) => random.below(70).wrapping_sub(35),
            ("shf" | "shl" | "shr", number) if number > 0 && random.below(2) == 0 => random.below(70),
            _ => self.edge(number, random),
        }
    }

    /// A value near the limits of a register of this type.
    fn edge(&self, number: usize, random: &mut Random) -> u64 {
        let op = self.op();
        let types: Vec<&str> = op.words.iter().copied().filter(|word| exact::Format::of(word).is_some()).collect();
        let is_float = match op.name {
            "cvt" => types.last() == op.words.last(),
            "slct" => number == 2 || !op.words.last().is_some_and(|word| word.starts_with('f')),
            _ => !types.is_empty(),
        };
        match types.last().and_then(|word| exact::Format::of(word)).filter(|_| is_float) {
            Some(exact::F64) => random.double(),
            Some(exact::F32) => random.single().into(),
            Some(format) => {
                // Two edge values, if there is room.
                let one = |random: &mut Random| match random.below(3) {
                    0 => {
                        let edges = [0, 1, format.infinity() - 1, format.infinity(), format.infinity() + 1];
                        let edges = [&edges[..], &[1 << format.fraction, (1 << format.fraction) - 1]].concat();
                        edges[random.below(edges.len() as u64) as usize] | random.below(2) << (format.bits - 1)
                    }
                    1 => random.next(),
                    _ => {
                        let value = (random.below(400) as f32 - 200.0) / 16.0;
                        exact::Number::decode(value.to_bits().into(), exact::F32)
                            .encode(format, exact::Mode::Nearest)
                            .unwrap_or(0)
                    }
                } & (u64::MAX >> (64 - format.bits));
                one(random) | one(random) << format.bits
            }
            None => random.word(),
        }
    }

    /// The inputs of all threads of some warps.
    fn rows(&self, warps: usize, random: &mut Random) -> Vec<[u64; WORDS]> {
        let mut rows = vec![[0; WORDS]; warps * WARP];
        for row in &mut rows {
            for (number, kind) in self.inputs.iter().enumerate() {
                let value = self.value(number, random);
                let bits = match kind {
                    'p' => 1,
                    'h' => 16,
                    'r' => 32,
                    _ => 64,
                };
                row[number] = value & (u64::MAX >> (64 - bits));
            }
            row[CARRY] = random.below(2);
            for word in &mut row[MEMORY..] {
                *word = match random.below(2) {
                    0 => random.next(),
                    _ => self.edge(0, random) | self.edge(0, random) << 32,
                };
            }
        }
        // Sometimes all lanes of a warp vote alike.
        if matches!(self.op().name, "vote" | "match" | "bar" | "barrier") {
            for warp in rows.chunks_mut(WARP).step_by(2) {
                let first = warp[0][0];
                warp.iter_mut().for_each(|row| row[0] = first);
            }
        }
        rows
    }

    /// The model's results for a warp, and memory; `None` without a model.
    fn wanted(&self, rows: &[[u64; WORDS]]) -> Option<Vec<(Vec<Want>, [u8; 32])>> {
        let op = self.op();
        let inputs = |row: &[u64; WORDS]| {
            let mut inputs: Vec<u64> = row[..self.inputs.len()].to_vec();
            self.numbers.iter().for_each(|(place, value)| inputs.insert((*place).min(inputs.len()), *value));
            inputs
        };
        let bytes = |row: &[u64; WORDS]| -> [u8; 32] {
            let words = row[MEMORY..].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
            words.try_into().unwrap_or([0; 32])
        };
        let mut memory: Vec<[u8; 32]> = rows.iter().map(bytes).collect();
        if self.space() == "const" {
            memory.fill(CONSTANTS);
        }
        let wants = if row(op.name).collective {
            model::warp(&op, &rows.iter().map(inputs).collect::<Vec<_>>(), &mut memory)?
        } else {
            let lanes = rows.iter().zip(&mut memory);
            lanes.map(|(row, memory)| model::lane(&op, &inputs(row), row[CARRY] != 0, memory)).collect::<Option<_>>()?
        };
        Some(wants.into_iter().zip(memory).collect())
    }

    /// Compares the threads' results; returns the first difference.
    fn compare(&self, rows: &[[u64; WORDS]], output: &[u64]) -> Result<(), String> {
        for (warp, found) in rows.chunks(WARP).zip(output.chunks(WARP * WORDS)) {
            let wanted = self.wanted(warp).ok_or("no model")?;
            for ((row, found), (wants, memory)) in warp.iter().zip(found.chunks(WORDS)).zip(wanted) {
                let kinds =
                    self.outputs.iter().flat_map(|kind| if *kind == 'q' { vec!['l', 'l'] } else { vec![*kind] });
                let places: Vec<(usize, u32)> = kinds
                    .map(|kind| match kind {
                        'p' => 1,
                        'h' => 16,
                        'r' => 32,
                        _ => 64,
                    })
                    .enumerate()
                    .chain(self.op().has("cc").then_some((CARRY, 32)))
                    .collect();
                for (want, (place, bits)) in wants.iter().zip(places) {
                    if !want.holds(found[place], bits) {
                        return Err(format!("{row:x?}: result {place} is {:#x}, wanted {want:x?}", found[place]));
                    }
                }
                let after: Vec<u8> = found[MEMORY..].iter().flat_map(|word| word.to_le_bytes()).collect();
                // A model that ignores memory fills it.
                let is_written = self.has_memory && self.space() != "const" && memory != [0xee; 32];
                if is_written && memory[..] != after[..] {
                    return Err(format!("{row:x?}: memory is {after:x?}, wanted {memory:x?}"));
                }
            }
        }
        Ok(())
    }
}

/// A number for a matrix, whose products and sums stay far from the limits of all ranges.
fn small(op: &Opcode<'_>, number: usize, random: &mut Random) -> u64 {
    let types = &op.words[op.words.len() - 4..];
    let a = if types[0] == "f64" { 1 } else { 4 };
    let b = if types[0] == "f64" { 1 } else { 2 };
    let ty = types[if number < a {
        1
    } else if number < a + b {
        2
    } else {
        3
    }];
    let value = (random.below(257) as f32 - 128.0) / 16.0;
    let encoded = |format: exact::Format, value: f32| {
        exact::Number::decode(value.to_bits().into(), exact::F32).encode(format, exact::Mode::Nearest).unwrap_or(0)
    };
    match (ty, exact::Format::of(ty)) {
        ("tf32", _) => encoded(exact::F32, value),
        (_, Some(format)) => (0..64 / format.bits).fold(0, |all, lane| {
            let value = value / (1 + lane) as f32;
            all | encoded(format, value) << (lane * format.bits)
        }),
        _ => random.word(),
    }
}

fn parsed(number: &str) -> Option<u64> {
    match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

fn module(cases: &[Case]) -> String {
    let constants = CONSTANTS.map(|byte| byte.to_string()).join(", ");
    let mut text =
        format!("{HEADER}.const .align 16 .b8 constants[32] = {{{constants}}};\n.shared .align 16 .b8 memory[1024];\n");
    for (number, case) in cases.iter().enumerate() {
        text.push_str(&case.kernel(&format!("k{number:04}_")));
    }
    text
}

/// Instructions for which the CPU device has special functions, which the device of unit tests lacks.
const OF_THE_DEVICE: [&str; 3] = ["mma", "ldmatrix", "stmatrix"];

/// The cases of all forms with a model, on a GPU or on the device of unit tests.
fn cases(gpu: bool) -> Vec<Case> {
    let only = std::env::var("MNEME_PTX_FORMS").unwrap_or_default();
    let statements = forms().flat_map(|form| form.statements);
    let is_there = |opcode: &str| gpu || !OF_THE_DEVICE.contains(&Opcode::of(opcode).name);
    let chosen =
        statements.filter(|(opcode, _)| opcode.starts_with(&only) && reason(opcode).is_none() && is_there(opcode));
    chosen.map(|(opcode, text)| Case::of(&opcode, &text)).collect()
}

fn warps() -> usize {
    std::env::var("MNEME_PTX_ROWS").ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(WARP).div_ceil(WARP)
}

#[test]
fn every_form_does_what_the_manual_says() {
    let cases = cases(false);
    let mut wrong = Vec::new();
    let (lifted, refused) = lift_program(&module(&cases)).unwrap();
    let refused: Vec<usize> = refused.iter().filter_map(|(name, _)| name[1..5].parse().ok()).collect();
    for level in LEVELS {
        let object = object(&lifted.ir, level);
        let unable: Vec<String> = table(&object).refused.into_iter().map(|refusal| refusal.kernel).collect();
        let program = Object::link(&object);
        for (number, case) in cases.iter().enumerate() {
            let name = format!("k{number:04}_");
            if refused.contains(&number) || unable.contains(&name) {
                wrong.push(format!("{} cannot run: {}", case.opcode, case.text));
                continue;
            }
            let mut rows = case.rows(warps(), &mut Random(number as u64));
            let mut output = vec![0u64; rows.len() * WORDS + 1];
            // Rows begin at multiples of 16 bytes, for the widest accesses.
            let skipped = output.as_ptr().align_offset(16);
            output.resize(rows.len() * WORDS + skipped, 0);
            let place = output.as_mut_ptr().wrapping_add(output.as_ptr().align_offset(16));
            let parameters = Parameters::default().pointer(rows.as_mut_ptr()).pointer(place);
            program.launch(&name, warps() as u32, WARP as u32, parameters.get());
            let skipped = output.as_ptr().align_offset(16);
            if let Err(difference) = case.compare(&rows, &output[skipped..]) {
                wrong.push(format!("{} '{level}': {difference}", case.opcode));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), LEVELS.len() * cases.len(), wrong.join("\n"));
}

/// Runs cases as the driver compiles them, and lifted. Returns what differs and what cannot be run.
fn on_a_gpu<'c>(cases: impl Iterator<Item = (usize, &'c Case)>) -> (Vec<String>, Vec<String>) {
    let driver = Driver::open();
    let target = Target::Nvptx { arch: driver.architecture() };
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    for (number, case) in cases {
        let text = module(std::slice::from_ref(case)).replace("sm_90a", &driver.architecture());
        let rows = case.rows(warps(), &mut Random(number as u64));
        let input: Vec<u64> = rows.iter().flatten().copied().collect();
        let mut check =
            |image: &[u8], what: &str| match driver.try_run(image, c"k0000_", &input, warps() as u32, WARP as u32) {
                Ok(output) => {
                    wrong.extend(case.compare(&rows, &output).err().map(|it| format!("{} {what}: {it}", case.opcode)))
                }
                Err(status) => unknown.push(format!("{} {what}: {status:?}", case.opcode)),
            };
        check(text.as_bytes(), "by the driver");
        for level in LEVELS {
            let mut configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(WARP as u32, 1, 1), 0);
            (configuration.lift, configuration.passes) = (true, level.into());
            match build(&BuildRequest::new(InputCode::Ptx(&text), "k0000_", &target, &configuration)) {
                Ok(artifact) => check(&artifact.image, level),
                Err(error) => eprintln!("{} '{level}' is not built: {error}", case.opcode),
            }
        }
    }
    (wrong, unknown)
}

#[test]
fn every_form_does_on_a_gpu_what_the_manual_says() {
    if std::env::var("MNEME_TEST_DEVICE").as_deref() != Ok("cuda") {
        eprintln!("the forms on a GPU: not run");
        return;
    }
    let mut all = cases(true);
    // Such a load may miss what the same kernel has stored, as the statements here do.
    all.retain(|case| !case.opcode.contains(".nc."));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let (wrong, unknown): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let all = &all;
        let part = |first: usize| move || on_a_gpu(all.iter().enumerate().skip(first).step_by(threads));
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        parts.into_iter().map(|part| part.join().expect("a part does not panic")).unzip()
    });
    let (wrong, unknown) = (wrong.concat(), unknown.concat());
    eprintln!("{} forms; the driver refuses {}:\n{}", all.len(), unknown.len(), unknown.join("\n"));
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
