//! Random programs, with a model of each instruction by PTX's rules.

use std::cmp::Ordering;

/// A generator of numbers. Equal seeds give equal programs.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// A random number, often near the ends of a range.
    pub fn word(&mut self) -> u64 {
        const EDGES: [u64; 12] =
            [0, 1, 2, 31, 32, 33, 63, 64, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x8000_0000_0000_0000];
        match self.below(4) {
            0 => self.one_of(&EDGES),
            1 => self.next() >> self.below(64),
            2 => (self.next() >> self.below(64)).wrapping_neg(),
            _ => self.next(),
        }
    }

    pub fn single(&mut self) -> u32 {
        const EDGES: [u32; 10] = [
            0, 0x8000_0000, 1, 0x007f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x3f80_0000, 0xbf00_0000,
            0x4f00_0000,
        ];
        match self.below(3) {
            0 => self.one_of(&EDGES),
            1 => self.next() as u32,
            _ => ((self.below(2000) as f32 - 1000.0) / 16.0).to_bits(),
        }
    }

    pub fn double(&mut self) -> u64 {
        match self.below(3) {
            0 => f64::from(f32::from_bits(self.single())).to_bits(),
            1 => self.next(),
            _ => ((self.below(200_000) as f64 - 100_000.0) / 128.0).to_bits(),
        }
    }
}

pub const WORDS: usize = 6;
pub const LONGS: usize = 4;
pub const SINGLES: usize = 4;
pub const DOUBLES: usize = 3;
pub const PREDICATES: usize = 3;

/// The registers of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub words: [u32; WORDS],
    pub longs: [u64; LONGS],
    pub singles: [u32; SINGLES],
    pub doubles: [u64; DOUBLES],
    pub predicates: [bool; PREDICATES],
    carry: bool,
}

impl State {
    pub fn random(random: &mut Random) -> Self {
        let mut state = Self::default();
        state.words.iter_mut().for_each(|word| *word = random.word() as u32);
        state.longs.iter_mut().for_each(|long| *long = random.word());
        state.singles.iter_mut().for_each(|single| *single = random.single());
        state.doubles.iter_mut().for_each(|double| *double = random.double());
        state.predicates.iter_mut().for_each(|predicate| *predicate = random.below(2) == 0);
        state
    }

    /// The registers as the kernel reads them.
    pub fn raw(&self) -> Vec<u64> {
        let words = self.words.iter().map(|word| u64::from(*word));
        let singles = self.singles.iter().map(|bits| u64::from(*bits));
        let predicates = self.predicates.iter().map(|predicate| u64::from(*predicate));
        words.chain(self.longs).chain(singles).chain(self.doubles).chain(predicates).collect()
    }

    /// The registers as the kernel has written them.
    pub fn of(memory: &[u64]) -> Self {
        let mut state = Self::default();
        let mut rest = memory.iter().copied();
        let mut next = || rest.next().unwrap_or(0);
        state.words.iter_mut().for_each(|word| *word = next() as u32);
        state.longs.iter_mut().for_each(|long| *long = next());
        state.singles.iter_mut().for_each(|single| *single = next() as u32);
        state.doubles.iter_mut().for_each(|double| *double = next());
        state.predicates.iter_mut().for_each(|predicate| *predicate = next() != 0);
        state
    }

    /// The registers as in memory, with every NaN as the same value.
    pub fn bytes(&self) -> Vec<u64> {
        let single = |bits: u32| if f32::from_bits(bits).is_nan() { 0x7fff_ffff } else { bits };
        let double = |bits: u64| if f64::from_bits(bits).is_nan() { u64::MAX >> 1 } else { bits };
        let words = self.words.iter().map(|word| u64::from(*word));
        let singles = self.singles.iter().map(|bits| u64::from(single(*bits)));
        let doubles = self.doubles.iter().map(|bits| double(*bits));
        let predicates = self.predicates.iter().map(|predicate| u64::from(*predicate));
        words.chain(self.longs).chain(singles).chain(doubles).chain(predicates).collect()
    }
}

type Effect = Box<dyn Fn(&mut State)>;

/// Instructions and their effects.
pub struct Program(pub Vec<(String, Effect)>);

/// Instructions without a model here, which are only compared between devices.
const UNMODELLED: &[&str] = &[
    "min.f32 %fA, %fB, %fC;",
    "max.f32 %fA, %fB, %fC;",
    "min.NaN.f32 %fA, %fB, %fC;",
    "max.f64 %fdA, %fdB, %fdC;",
    "copysign.f32 %fA, %fB, %fC;",
    "abs.f32 %fA, %fB;",
    "neg.f64 %fdA, %fdB;",
    "add.ftz.f32 %fA, %fB, %fC;",
    "fma.rn.ftz.f32 %fA, %fB, %fC, %fA;",
    "mul.rn.sat.f32 %fA, %fB, %fC;",
    "add.rz.f32 %fA, %fB, %fC;",
    "fma.rm.f64 %fdA, %fdB, %fdC, %fdA;",
    "ex2.approx.f32 %fA, %fB;",
    "ex2.approx.ftz.f32 %fA, %fB;",
    "lg2.approx.f32 %fA, %fB;",
    "sin.approx.f32 %fA, %fB;",
    "cos.approx.ftz.f32 %fA, %fB;",
    "rcp.approx.f32 %fA, %fB;",
    "rcp.approx.ftz.f32 %fA, %fB;",
    "rcp.rn.f32 %fA, %fB;",
    "rcp.rn.f64 %fdA, %fdB;",
    "rsqrt.approx.f32 %fA, %fB;",
    "rsqrt.approx.f64 %fdA, %fdB;",
    "sqrt.approx.f32 %fA, %fB;",
    "sqrt.rn.f64 %fdA, %fdB;",
    "div.approx.f32 %fA, %fB, %fC;",
    "div.full.f32 %fA, %fB, %fC;",
    "tanh.approx.f32 %fA, %fB;",
    "cvt.rni.s32.f32 %rA, %fB;",
    "cvt.rzi.u32.f32 %rA, %fB;",
    "cvt.rzi.s64.f64 %rdA, %fdB;",
    "cvt.rmi.u64.f32 %rdA, %fB;",
    "cvt.rz.f32.f64 %fA, %fdB;",
    "cvt.rn.f64.s64 %fdA, %rdB;",
    "cvt.rp.f32.s32 %fA, %rB;",
    "cvt.sat.f32.f32 %fA, %fB;",
    "cvt.sat.s16.s32 %rA, %rB;",
    "cvt.rpi.f32.f32 %fA, %fB;",
    "{ .reg .b16 %h, %g; cvt.rn.f16.f32 %h, %fB; cvt.rn.f16.f32 %g, %fC; add.rn.f16 %h, %h, %g; cvt.f32.f16 %fA, %h; }",
    "{ .reg .b16 %h; cvt.rn.f16.f32 %h, %fB; fma.rn.f16 %h, %h, %h, %h; cvt.f32.f16 %fA, %h; }",
    "{ .reg .b16 %h; cvt.rn.bf16.f32 %h, %fB; cvt.f32.bf16 %fA, %h; }",
    "add.rn.f16x2 %rA, %rB, %rC;",
    "sad.u32 %rA, %rB, %rC, %rA;",
    "mul24.lo.s32 %rA, %rB, %rC;",
    "dp4a.u32.s32 %rA, %rB, %rC, %rA;",
    "vadd4.u32.u32.u32 %rA, %rB, %rC, %rA;",
    "bfe.u32 %rA, %rB, %rC, %rA;",
    "bfi.b32 %rA, %rB, %rC, %rA, %rB;",
    "shf.l.clamp.b32 %rA, %rB, %rC, %rA;",
    "add.sat.s32 %rA, %rB, %rC;",
    "mad.hi.sat.s32 %rA, %rB, %rC, %rA;",
    // The operand is not the result of `abs`, because ptxas 12.9 and 13.0 then assume that it is not NaN.
    "{ .reg .b32 %n, %m; .reg .f32 %c; mov.b32 %n, %fA; shl.b32 %m, %rB, 31; xor.b32 %n, %n, %m; mov.b32 %c, %n; \
     slct.s32.f32 %rA, %rB, %rC, %c; }",
    "shl.b64 %rdA, %rdB, %rC;",
    "shr.u64 %rdA, %rdB, %rC;",
    "brev.b64 %rdA, %rdB;",
    "clz.b64 %rA, %rdB;",
    "setp.ltu.f64 %pA, %fdB, %fdC;",
    "set.ge.f32.f32 %fA, %fB, %fC;",
    "testp.subnormal.f32 %pA, %fB;",
    "mad.wide.s32 %rdA, %rB, %rC, %rdA;",
];

impl Program {
    /// A program of all instructions, including those that [`Program::run`] does not know.
    pub fn of_everything(random: &mut Random, length: usize) -> Self {
        let mut program = Vec::new();
        while program.len() < length {
            if random.below(3) > 0 {
                program.extend(Self::random(random, 1).0);
                continue;
            }
            let mut text = random.one_of(UNMODELLED).to_owned();
            for place in ["A", "B", "C"] {
                for (prefix, count) in
                    [("%rd", LONGS), ("%fd", DOUBLES), ("%r", WORDS), ("%f", SINGLES), ("%p", PREDICATES)]
                {
                    let number = random.below(count as u64);
                    text = text.replace(&format!("{prefix}{place}"), &format!("{prefix}{number}"));
                }
            }
            let nothing: Effect = Box::new(|_| {});
            program.push((text, nothing));
        }
        Self(program)
    }

    pub fn random(random: &mut Random, length: usize) -> Self {
        let mut program = Vec::new();
        while program.len() < length {
            let (text, effect) = instruction(random);
            if random.below(5) == 0 && !text.contains(".cc") && !text.contains('\n') {
                let (predicate, wanted) = (random.below(PREDICATES as u64) as usize, random.below(2) == 0);
                let sign = if wanted { "" } else { "!" };
                let guarded: Effect = Box::new(move |state| {
                    if state.predicates[predicate] == wanted {
                        effect(state);
                    }
                });
                program.push((format!("@{sign}%p{predicate} {text}"), guarded));
            } else {
                program.push((text, effect));
            }
        }
        Self(program)
    }

    pub fn run(&self, state: &mut State) {
        self.0.iter().for_each(|(_, effect)| effect(state));
    }

    /// The body of a kernel, which loads the registers from memory at `%in` and stores them at `%out`.
    pub fn text(&self) -> String {
        let mut text = String::from(
            ".reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %fd<3>; .reg .pred %p<4>; .reg .b32 %t<9>;\n\
             .reg .b64 %in, %out, %at;\n\
             ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;\n\
             mov.u32 %t0, %tid.x; mul.wide.u32 %at, %t0, 160; add.s64 %in, %in, %at; add.s64 %out, %out, %at;\n",
        );
        let names = registers();
        for (index, (register, kind)) in names.iter().enumerate() {
            match *kind {
                "pred" => {
                    text.push_str(&format!(
                        "ld.global.u32 %t1, [%in+{}]; setp.ne.u32 {register}, %t1, 0;\n",
                        index * 8
                    ));
                }
                kind => text.push_str(&format!("ld.global.{kind} {register}, [%in+{}];\n", index * 8)),
            }
        }
        for (line, _) in &self.0 {
            text.push_str(line);
            text.push('\n');
        }
        for (index, (register, kind)) in names.iter().enumerate() {
            match *kind {
                "pred" => {
                    text.push_str(&format!(
                        "selp.u32 %t1, 1, 0, {register}; st.global.u32 [%out+{}], %t1;\n",
                        index * 8
                    ));
                }
                kind => text.push_str(&format!("st.global.{kind} [%out+{}], {register};\n", index * 8)),
            }
        }
        text + "ret;\n"
    }
}

/// The registers in the order of memory, with their types.
fn registers() -> Vec<(String, &'static str)> {
    let of = |prefix: &'static str, count: usize, kind: &'static str| {
        (0..count).map(move |number| (format!("%{prefix}{number}"), kind))
    };
    of("r", WORDS, "b32")
        .chain(of("rd", LONGS, "b64"))
        .chain(of("f", SINGLES, "f32"))
        .chain(of("fd", DOUBLES, "f64"))
        .chain(of("p", PREDICATES, "pred"))
        .collect()
}

fn instruction(random: &mut Random) -> (String, Effect) {
    match random.below(10) {
        0..=3 => word(random),
        4 | 5 => long(random),
        6 => single(random),
        7 => double(random),
        8 => predicate(random),
        _ => conversion(random),
    }
}

fn pick(random: &mut Random, count: usize) -> usize {
    random.below(count as u64) as usize
}

fn word(random: &mut Random) -> (String, Effect) {
    type Two = fn(u32, u32) -> u32;
    const TWO: [(&str, Two); 20] = [
        ("add.s32", |a, b| a.wrapping_add(b)),
        ("sub.s32", |a, b| a.wrapping_sub(b)),
        ("mul.lo.s32", |a, b| a.wrapping_mul(b)),
        ("mul.hi.u32", |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        ("mul.hi.s32", |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
        ("and.b32", |a, b| a & b),
        ("or.b32", |a, b| a | b),
        ("xor.b32", |a, b| a ^ b),
        ("min.u32", |a, b| a.min(b)),
        ("max.u32", |a, b| a.max(b)),
        ("min.s32", |a, b| (a as i32).min(b as i32) as u32),
        ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
        ("shl.b32", |a, b| if b > 31 { 0 } else { a << b }),
        ("shr.u32", |a, b| if b > 31 { 0 } else { a >> b }),
        ("shr.s32", |a, b| ((a as i32) >> b.min(31)) as u32),
        ("div.u32", |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        ("rem.u32", |a, b| a.checked_rem(b).unwrap_or(u32::MAX)),
        ("div.s32", |a, b| if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 }),
        ("rem.s32", |a, b| if b == 0 { u32::MAX } else { (a as i32).wrapping_rem(b as i32) as u32 }),
        ("set.lt.u32.s32", |a, b| if (a as i32) < (b as i32) { u32::MAX } else { 0 }),
    ];
    type One = fn(u32) -> u32;
    const ONE: [(&str, One); 9] = [
        ("not.b32", |a| !a),
        ("neg.s32", u32::wrapping_neg),
        ("abs.s32", |a| (a as i32).wrapping_abs() as u32),
        ("popc.b32", u32::count_ones),
        ("clz.b32", u32::leading_zeros),
        ("brev.b32", u32::reverse_bits),
        ("bfind.u32", |a| 31u32.wrapping_sub(a.leading_zeros())),
        ("bfind.s32", |a| 31u32.wrapping_sub((a ^ ((a as i32) >> 31) as u32).leading_zeros())),
        ("cnot.b32", |a| u32::from(a == 0)),
    ];
    let (d, a, b, c) = (pick(random, WORDS), pick(random, WORDS), pick(random, WORDS), pick(random, WORDS));
    match random.below(12) {
        0..=3 => {
            let (name, run) = random.one_of(&TWO);
            (format!("{name} %r{d}, %r{a}, %r{b};"), Box::new(move |it| it.words[d] = run(it.words[a], it.words[b])))
        }
        4 => {
            let (name, run) = random.one_of(&TWO);
            let constant = random.word() as u32;
            let text = format!("{name} %r{d}, %r{a}, {constant};");
            (text, Box::new(move |it| it.words[d] = run(it.words[a], constant)))
        }
        5 => {
            let (name, run) = random.one_of(&ONE);
            (format!("{name} %r{d}, %r{a};"), Box::new(move |it| it.words[d] = run(it.words[a])))
        }
        6 => {
            // Three different registers: ptxas 13.0 miscompiles a lop3 that reads one register twice, by merging it
            // with a later instruction into another function.
            let other = |taken: &[usize], from: usize| {
                (0..WORDS).map(|step| (from + step) % WORDS).find(|it| !taken.contains(it)).expect("more than three")
            };
            let b = other(&[a], b);
            let c = other(&[a, b], c);
            let table = random.below(256) as u32;
            let text = format!("lop3.b32 %r{d}, %r{a}, %r{b}, %r{c}, {table};");
            (
                text,
                Box::new(move |it| {
                    let (a, b, c) = (it.words[a], it.words[b], it.words[c]);
                    it.words[d] = (0..32).fold(0, |word, bit| {
                        let row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                        word | (table >> row & 1) << bit
                    });
                }),
            )
        }
        7 => {
            let (from, count) = (random.below(32) as u32, random.below(32) as u32);
            let signed = random.below(2) == 0;
            let name = if signed { "bfe.s32" } else { "bfe.u32" };
            (
                format!("{name} %r{d}, %r{a}, {from}, {count};"),
                Box::new(move |it| {
                    // Bit by bit, as in the manual.
                    let a = it.words[a];
                    let sign = if !signed || count == 0 { 0 } else { a >> (from + count - 1).min(31) & 1 };
                    it.words[d] = (0..32).fold(0, |word, bit| {
                        let here = if bit < count && from + bit <= 31 { a >> (from + bit) & 1 } else { sign };
                        word | here << bit
                    });
                }),
            )
        }
        8 => {
            let (from, count) = (random.below(32) as u32, random.below(32) as u32);
            (
                format!("bfi.b32 %r{d}, %r{a}, %r{b}, {from}, {count};"),
                Box::new(move |it| {
                    let mut word = it.words[b];
                    for bit in (0..count).filter(|bit| from + bit <= 31) {
                        word = word & !(1 << (from + bit)) | (it.words[a] >> bit & 1) << (from + bit);
                    }
                    it.words[d] = word;
                }),
            )
        }
        9 => {
            let left = random.below(2) == 0;
            let name = if left { "shf.l.wrap.b32" } else { "shf.r.wrap.b32" };
            (
                format!("{name} %r{d}, %r{a}, %r{b}, %r{c};"),
                Box::new(move |it| {
                    let (whole, n) = (u64::from(it.words[b]) << 32 | u64::from(it.words[a]), it.words[c] & 31);
                    it.words[d] = if left { (whole << n >> 32) as u32 } else { (whole >> n) as u32 };
                }),
            )
        }
        10 => {
            let text = format!("prmt.b32 %r{d}, %r{a}, %r{b}, %r{c};");
            (
                text,
                Box::new(move |it| {
                    let bytes = [it.words[a].to_le_bytes(), it.words[b].to_le_bytes()].concat();
                    let selector = it.words[c];
                    it.words[d] = (0..4).fold(0, |word, place| {
                        let choice = selector >> (4 * place) & 15;
                        let byte = bytes[choice as usize & 7];
                        let byte = if choice & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
                        word | u32::from(byte) << (8 * place)
                    });
                }),
            )
        }
        // The flag lives across instructions.
        _ => match random.below(3) {
            0 => (
                format!("add.cc.u32 %r{d}, %r{a}, %r{b};\naddc.cc.u32 %r{c}, %r{a}, %r{c};\naddc.u32 %r{b}, 0, 0;"),
                Box::new(move |it| {
                    let sum = u64::from(it.words[a]) + u64::from(it.words[b]);
                    (it.words[d], it.carry) = (sum as u32, sum >> 32 != 0);
                    let sum = u64::from(it.words[a]) + u64::from(it.words[c]) + u64::from(it.carry);
                    (it.words[c], it.carry) = (sum as u32, sum >> 32 != 0);
                    it.words[b] = u32::from(it.carry);
                }),
            ),
            1 => (
                format!("sub.cc.u32 %r{d}, %r{a}, %r{b};\nsubc.cc.u32 %r{c}, %r{a}, %r{c};\naddc.u32 %r{b}, 0, 0;"),
                Box::new(move |it| {
                    // After a subtraction, the flag is set if there was no borrow.
                    let (value, borrow) = it.words[a].overflowing_sub(it.words[b]);
                    (it.words[d], it.carry) = (value, !borrow);
                    let taken = u64::from(it.words[c]) + u64::from(!it.carry);
                    let minuend = u64::from(it.words[a]);
                    (it.words[c], it.carry) = (minuend.wrapping_sub(taken) as u32, minuend >= taken);
                    it.words[b] = u32::from(it.carry);
                }),
            ),
            _ => (
                format!("mad.lo.cc.u32 %r{d}, %r{a}, %r{b}, %r{c};\nmadc.hi.u32 %r{c}, %r{a}, %r{b}, 0;"),
                Box::new(move |it| {
                    let product = u64::from(it.words[a]) * u64::from(it.words[b]);
                    let sum = (product & 0xffff_ffff) + u64::from(it.words[c]);
                    (it.words[d], it.carry) = (sum as u32, sum >> 32 != 0);
                    // The first result may be a factor of the second.
                    let product = u64::from(it.words[a]) * u64::from(it.words[b]);
                    it.words[c] = ((product >> 32) as u32).wrapping_add(u32::from(it.carry));
                }),
            ),
        },
    }
}

fn long(random: &mut Random) -> (String, Effect) {
    type Two = fn(u64, u64) -> u64;
    const TWO: [(&str, Two); 12] = [
        ("add.s64", u64::wrapping_add),
        ("sub.s64", u64::wrapping_sub),
        ("mul.lo.s64", u64::wrapping_mul),
        ("mul.hi.u64", |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        ("and.b64", |a, b| a & b),
        ("xor.b64", |a, b| a ^ b),
        ("min.s64", |a, b| (a as i64).min(b as i64) as u64),
        ("max.u64", |a, b| a.max(b)),
        ("div.u64", |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
        ("rem.s64", |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_rem(b as i64) as u64 }),
        ("div.s64", |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 }),
        ("or.b64", |a, b| a | b),
    ];
    let (d, a, b) = (pick(random, LONGS), pick(random, LONGS), pick(random, LONGS));
    let (x, y) = (pick(random, WORDS), pick(random, WORDS));
    match random.below(8) {
        0..=2 => {
            let (name, run) = random.one_of(&TWO);
            (format!("{name} %rd{d}, %rd{a}, %rd{b};"), Box::new(move |it| it.longs[d] = run(it.longs[a], it.longs[b])))
        }
        3 => {
            let text = format!("mul.wide.s32 %rd{d}, %r{x}, %r{y};");
            (
                text,
                Box::new(move |it| {
                    it.longs[d] = (i64::from(it.words[x] as i32) * i64::from(it.words[y] as i32)) as u64;
                }),
            )
        }
        4 => {
            let text = format!("mad.wide.u32 %rd{d}, %r{x}, %r{y}, %rd{a};");
            (
                text,
                Box::new(move |it| {
                    it.longs[d] = (u64::from(it.words[x]) * u64::from(it.words[y])).wrapping_add(it.longs[a]);
                }),
            )
        }
        5 => {
            let text = format!("shr.s64 %rd{d}, %rd{a}, %r{x};");
            (text, Box::new(move |it| it.longs[d] = ((it.longs[a] as i64) >> it.words[x].min(63)) as u64))
        }
        6 => {
            let text = format!("mov.b64 %rd{d}, {{%r{x}, %r{y}}};");
            (text, Box::new(move |it| it.longs[d] = u64::from(it.words[y]) << 32 | u64::from(it.words[x])))
        }
        _ if x != y => {
            let text = format!("mov.b64 {{%r{x}, %r{y}}}, %rd{a};");
            (
                text,
                Box::new(move |it| {
                    let long = it.longs[a];
                    (it.words[x], it.words[y]) = (long as u32, (long >> 32) as u32);
                }),
            )
        }
        _ => {
            let text = format!("popc.b64 %r{x}, %rd{a};");
            (text, Box::new(move |it| it.words[x] = it.longs[a].count_ones()))
        }
    }
}

/// Flushes like `.ftz`, for inputs and results.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0f32.copysign(value) } else { value }
}

// The CPU device, unlike GPUs, does not define which of two zeros is the least, nor the sign of NaN. `min`, `max` and
// `copysign` are therefore missing here.
fn single(random: &mut Random) -> (String, Effect) {
    type Two = fn(f32, f32) -> f32;
    const FLUSHING: [(&str, Two); 6] = [
        ("add.rn.ftz.f32", |a, b| a + b),
        ("sub.rn.ftz.f32", |a, b| a - b),
        ("mul.rn.ftz.f32", |a, b| a * b),
        ("div.rn.ftz.f32", |a, b| a / b),
        ("mul.ftz.f32", |a, b| a * b),
        ("sub.ftz.f32", |a, b| a - b),
    ];
    const TWO: [(&str, Two); 4] = [
        ("add.rn.f32", |a, b| a + b),
        ("sub.rn.f32", |a, b| a - b),
        ("mul.rn.f32", |a, b| a * b),
        ("div.rn.f32", |a, b| a / b),
    ];
    let (d, a, b, c) = (pick(random, SINGLES), pick(random, SINGLES), pick(random, SINGLES), pick(random, SINGLES));
    let of = |it: &State, index: usize| f32::from_bits(it.singles[index]);
    match random.below(9) {
        // Factors and terms that do not change other numbers still flush denormals.
        6 => {
            let (name, constant) =
                random.one_of(&[("mul.rn.ftz", 1.0f32), ("mul.ftz", 1.0), ("add.rn.ftz", 0.0), ("add.ftz", -0.0)]);
            let text = format!("{name}.f32 %f{d}, %f{a}, 0f{:08X};", constant.to_bits());
            let is_product = name.starts_with("mul");
            (
                text,
                Box::new(move |it| {
                    let a = flushed(of(it, a));
                    it.singles[d] = flushed(if is_product { a * constant } else { a + constant }).to_bits();
                }),
            )
        }
        7 => {
            let (name, run) = random.one_of(&FLUSHING);
            let text = format!("{name} %f{d}, %f{a}, %f{b};");
            (text, Box::new(move |it| it.singles[d] = flushed(run(flushed(of(it, a)), flushed(of(it, b)))).to_bits()))
        }
        8 => {
            let text = format!("fma.rn.ftz.f32 %f{d}, %f{a}, %f{b}, %f{c};");
            (
                text,
                Box::new(move |it| {
                    let (a, b, c) = (flushed(of(it, a)), flushed(of(it, b)), flushed(of(it, c)));
                    it.singles[d] = flushed(a.mul_add(b, c)).to_bits();
                }),
            )
        }
        0..=2 => {
            let (name, run) = random.one_of(&TWO);
            let text = format!("{name} %f{d}, %f{a}, %f{b};");
            (text, Box::new(move |it| it.singles[d] = run(of(it, a), of(it, b)).to_bits()))
        }
        3 => {
            let text = format!("fma.rn.f32 %f{d}, %f{a}, %f{b}, %f{c};");
            (text, Box::new(move |it| it.singles[d] = of(it, a).mul_add(of(it, b), of(it, c)).to_bits()))
        }
        4 => {
            let text = format!("sqrt.rn.f32 %f{d}, %f{a};");
            (text, Box::new(move |it| it.singles[d] = of(it, a).sqrt().to_bits()))
        }
        _ => {
            let text = format!("neg.f32 %f{d}, %f{a};");
            (text, Box::new(move |it| it.singles[d] = (-of(it, a)).to_bits()))
        }
    }
}

fn double(random: &mut Random) -> (String, Effect) {
    type Two = fn(f64, f64) -> f64;
    const TWO: [(&str, Two); 4] = [
        ("add.rn.f64", |a, b| a + b),
        ("mul.rn.f64", |a, b| a * b),
        ("div.rn.f64", |a, b| a / b),
        ("sub.rn.f64", |a, b| a - b),
    ];
    let (d, a, b, c) = (pick(random, DOUBLES), pick(random, DOUBLES), pick(random, DOUBLES), pick(random, DOUBLES));
    let of = |it: &State, index: usize| f64::from_bits(it.doubles[index]);
    match random.below(3) {
        0 => {
            let text = format!("fma.rn.f64 %fd{d}, %fd{a}, %fd{b}, %fd{c};");
            (text, Box::new(move |it| it.doubles[d] = of(it, a).mul_add(of(it, b), of(it, c)).to_bits()))
        }
        1 => {
            let text = format!("abs.f64 %fd{d}, %fd{a};");
            (text, Box::new(move |it| it.doubles[d] = of(it, a).abs().to_bits()))
        }
        _ => {
            let (name, run) = random.one_of(&TWO);
            let text = format!("{name} %fd{d}, %fd{a}, %fd{b};");
            (text, Box::new(move |it| it.doubles[d] = run(of(it, a), of(it, b)).to_bits()))
        }
    }
}

fn predicate(random: &mut Random) -> (String, Effect) {
    type Words = fn(u32, u32) -> bool;
    const WORD: [(&str, Words); 6] = [
        ("eq.s32", |a, b| a == b),
        ("lt.s32", |a, b| (a as i32) < (b as i32)),
        ("ge.s32", |a, b| (a as i32) >= (b as i32)),
        ("lo.u32", |a, b| a < b),
        ("hi.u32", |a, b| a > b),
        ("ne.u32", |a, b| a != b),
    ];
    type Singles = fn(f32, f32) -> bool;
    const SINGLE: [(&str, Singles); 6] = [
        ("lt.f32", |a, b| a < b),
        ("geu.f32", |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_ge)),
        ("ne.f32", |a, b| a.partial_cmp(&b).is_some_and(Ordering::is_ne)),
        ("neu.f32", |a, b| a != b),
        ("num.f32", |a, b| !a.is_nan() && !b.is_nan()),
        ("equ.f32", |a, b| a.partial_cmp(&b).is_none_or(Ordering::is_eq)),
    ];
    let (p, q) = (pick(random, PREDICATES), pick(random, PREDICATES));
    let (a, b, d) = (pick(random, WORDS), pick(random, WORDS), pick(random, WORDS));
    match random.below(6) {
        5 => {
            let (name, run) = random.one_of(&SINGLE);
            let (a, b) = (pick(random, SINGLES), pick(random, SINGLES));
            let text = format!("setp.{} %p{p}, %f{a}, %f{b};", name.replace(".f32", ".ftz.f32"));
            let of = |it: &State, index: usize| flushed(f32::from_bits(it.singles[index]));
            (text, Box::new(move |it| it.predicates[p] = run(of(it, a), of(it, b))))
        }
        0 => {
            let (name, run) = random.one_of(&WORD);
            let text = format!("setp.{name} %p{p}, %r{a}, %r{b};");
            (text, Box::new(move |it| it.predicates[p] = run(it.words[a], it.words[b])))
        }
        1 => {
            let (name, run) = random.one_of(&SINGLE);
            let (a, b) = (pick(random, SINGLES), pick(random, SINGLES));
            let text = format!("setp.{name} %p{p}, %f{a}, %f{b};");
            (
                text,
                Box::new(move |it| {
                    it.predicates[p] = run(f32::from_bits(it.singles[a]), f32::from_bits(it.singles[b]));
                }),
            )
        }
        2 => {
            let (name, run) = random.one_of(&WORD);
            let (comparison, ty) = name.split_once('.').unwrap();
            let text = format!("setp.{comparison}.and.{ty} %p{p}, %r{a}, %r{b}, !%p{q};");
            (text, Box::new(move |it| it.predicates[p] = run(it.words[a], it.words[b]) && !it.predicates[q]))
        }
        3 => {
            let text = format!("selp.b32 %r{d}, %r{a}, %r{b}, %p{p};");
            (text, Box::new(move |it| it.words[d] = if it.predicates[p] { it.words[a] } else { it.words[b] }))
        }
        _ => {
            let text = format!("xor.pred %p{p}, %p{p}, %p{q};");
            (text, Box::new(move |it| it.predicates[p] ^= it.predicates[q]))
        }
    }
}

fn conversion(random: &mut Random) -> (String, Effect) {
    let (w, l, s, g) = (pick(random, WORDS), pick(random, LONGS), pick(random, SINGLES), pick(random, DOUBLES));
    match random.below(16) {
        13 => (
            format!("cvt.ftz.f64.f32 %fd{g}, %f{s};"),
            Box::new(move |it| it.doubles[g] = f64::from(flushed(f32::from_bits(it.singles[s]))).to_bits()),
        ),
        14 => (
            format!("cvt.rn.ftz.f32.f64 %f{s}, %fd{g};"),
            Box::new(move |it| it.singles[s] = flushed(f64::from_bits(it.doubles[g]) as f32).to_bits()),
        ),
        0 => (format!("cvt.u64.u32 %rd{l}, %r{w};"), Box::new(move |it| it.longs[l] = it.words[w].into())),
        1 => (format!("cvt.s64.s32 %rd{l}, %r{w};"), Box::new(move |it| it.longs[l] = it.words[w] as i32 as u64)),
        2 => (format!("cvt.u32.u64 %r{w}, %rd{l};"), Box::new(move |it| it.words[w] = it.longs[l] as u32)),
        3 => (format!("cvt.s32.s8 %r{w}, %r{w};"), Box::new(move |it| it.words[w] = it.words[w] as i8 as u32)),
        4 => (format!("cvt.u32.u16 %r{w}, %r{w};"), Box::new(move |it| it.words[w] = it.words[w] as u16 as u32)),
        5 => (
            format!("cvt.sat.u8.s32 %r{w}, %r{w};"),
            Box::new(move |it| it.words[w] = (it.words[w] as i32).clamp(0, 255) as u32),
        ),
        6 => (
            format!("cvt.rn.f32.s32 %f{s}, %r{w};"),
            Box::new(move |it| it.singles[s] = (it.words[w] as i32 as f32).to_bits()),
        ),
        7 => (
            format!("cvt.rn.f32.u64 %f{s}, %rd{l};"),
            Box::new(move |it| it.singles[s] = (it.longs[l] as f32).to_bits()),
        ),
        8 => (
            format!("cvt.f64.f32 %fd{g}, %f{s};"),
            Box::new(move |it| it.doubles[g] = f64::from(f32::from_bits(it.singles[s])).to_bits()),
        ),
        9 => (
            format!("cvt.rn.f32.f64 %f{s}, %fd{g};"),
            Box::new(move |it| it.singles[s] = (f64::from_bits(it.doubles[g]) as f32).to_bits()),
        ),
        10 => (
            format!("cvt.rzi.s32.f32 %r{w}, %f{s};"),
            Box::new(move |it| it.words[w] = f32::from_bits(it.singles[s]) as i32 as u32),
        ),
        11 => (
            format!("cvt.rmi.f32.f32 %f{s}, %f{s};"),
            Box::new(move |it| it.singles[s] = f32::from_bits(it.singles[s]).floor().to_bits()),
        ),
        12 => (
            format!("cvt.rni.f64.f64 %fd{g}, %fd{g};"),
            Box::new(move |it| it.doubles[g] = f64::from_bits(it.doubles[g]).round_ties_even().to_bits()),
        ),
        // Not the other way round, because the bits of a NaN depend on the device.
        _ => (format!("mov.b32 %f{s}, %r{w};"), Box::new(move |it| it.singles[s] = it.words[w])),
    }
}
