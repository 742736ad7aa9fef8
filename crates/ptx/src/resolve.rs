//! The body of a function with its names resolved: registers, labels, variables.

use std::collections::HashMap;

use super::error::LiftError;
use super::instructions::{self, Row, Writes};
use super::reader::clip;
use super::syntax::*;

pub type RegisterId = u32;
pub type LabelId = u32;

/// The register of the carry flag.
pub const CARRY: RegisterId = 0;

/// Limit on targets of a function's branches through lists (`brx.idx`), counting each list once per use.
const MOST_WAYS: usize = 1 << 18;

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// A variable of the module.
    Global(usize),
    Function(usize),
    /// A parameter of the function.
    Param(usize),
    /// The function's return value.
    Return(usize),
    /// A local variable, or a buffer of parameters.
    Local(usize),
}

impl AddressBase {
    pub fn is_in_frame(self) -> bool {
        matches!(self, Self::Local(_) | Self::Param(_) | Self::Return(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Resolved<'a> {
    Register(RegisterId),
    Int(i128),
    F32(u32),
    F64(u64),
    /// A special register, with its `%`.
    Special(&'a str),
    Address(AddressBase, i64),
    Label(LabelId),
    Targets(usize),
    Prototype(usize),
    Not(RegisterId),
    Pair(Box<Resolved<'a>>, Box<Resolved<'a>>),
    Vector(Vec<Resolved<'a>>),
    Bracket(Vec<Resolved<'a>>),
    List(Vec<Resolved<'a>>),
    /// A register and an offset.
    Sum(RegisterId, i64),
    Sink,
}

impl Resolved<'_> {
    /// The register of an address, and the distance from it.
    pub fn based(&self) -> Option<(RegisterId, i64)> {
        match self {
            Self::Register(register) => Some((*register, 0)),
            Self::Sum(register, offset) => Some((*register, *offset)),
            _ => None,
        }
    }

    /// Calls `visit` with every operand that has no parts.
    pub fn leaves(&self, visit: &mut dyn FnMut(&Self)) {
        match self {
            Self::Pair(first, second) => [first, second].iter().for_each(|part| part.leaves(visit)),
            Self::Vector(items) | Self::Bracket(items) | Self::List(items) => {
                items.iter().for_each(|item| item.leaves(visit));
            }
            leaf => visit(leaf),
        }
    }

    /// Calls `visit` with every register.
    pub fn registers(&self, visit: &mut dyn FnMut(RegisterId)) {
        self.leaves(&mut |leaf| {
            if let Self::Register(id) | Self::Not(id) | Self::Sum(id, _) = leaf {
                visit(*id);
            }
        });
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Op<'a> {
    pub guard: Option<(RegisterId, bool)>,
    /// The instruction as written.
    pub text: &'a str,
    pub name: &'a str,
    pub row: &'static Row,
    pub modifiers: Vec<&'a str>,
    /// The modifiers that are types, and the others.
    pub types: Vec<Type>,
    pub words: Vec<&'a str>,
    pub operands: Vec<Resolved<'a>>,
    pub line: u32,
    /// The number of the `.loc` directive in force.
    pub location: Option<usize>,
}

impl<'a> Op<'a> {
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// The operand in brackets.
    pub fn address(&self) -> Option<&Resolved<'a>> {
        self.operands.iter().find(|operand| matches!(operand, Resolved::Bracket(_)))
    }

    /// The space that a memory instruction names.
    pub fn space(&self) -> Space {
        self.modifiers.iter().find_map(|word| Space::of(word)).unwrap_or(Space::Generic)
    }

    /// The type at its end.
    pub fn scalar(&self) -> Option<Scalar> {
        self.modifiers.last().and_then(|word| Scalar::of(word))
    }

    /// The type at its end, including packed and narrow types.
    pub fn ty(&self) -> Option<Type> {
        self.modifiers.last().and_then(|word| Type::of(word))
    }

    /// The second to last type.
    pub fn first_scalar(&self) -> Option<Scalar> {
        let at = self.modifiers.len().checked_sub(2)?;
        Scalar::of(self.modifiers[at])
    }

    /// Whether all modifiers except the last `types` are in this list.
    pub fn only(&self, types: usize, allowed: &[&str]) -> bool {
        let end = self.modifiers.len().saturating_sub(types);
        self.modifiers[..end].iter().all(|word| allowed.contains(word))
    }

    /// Whether the first operand is written.
    pub fn writes_first(&self) -> bool {
        match self.operands.first() {
            None | Some(Resolved::Bracket(_) | Resolved::List(_) | Resolved::Label(_)) => false,
            Some(_) => match self.row.writes {
                Writes::First => true,
                Writes::Nothing => false,
                Writes::With(modifier) => self.has(modifier),
            },
        }
    }

    /// The registers that the instruction names.
    pub fn named(&self) -> Vec<RegisterId> {
        let mut named = Vec::new();
        self.operands.iter().for_each(|operand| operand.registers(&mut |register| named.push(register)));
        named
    }

    /// Calls `visit` with every register that the instruction writes.
    pub fn written(&self, visit: &mut dyn FnMut(RegisterId)) {
        match &self.operands[..] {
            [first, ..] if self.writes_first() => first.registers(visit),
            [returned @ Resolved::List(_), _, ..] if self.name == "call" => returned.registers(visit),
            _ => {}
        }
        if self.writes_carry() {
            visit(CARRY);
        }
    }

    /// Calls `visit` with every register that the instruction reads, except those that it only keeps if its guard is
    /// false.
    pub fn read(&self, visit: &mut dyn FnMut(RegisterId)) {
        self.operands.iter().skip(usize::from(self.writes_first())).for_each(|operand| operand.registers(visit));
        if let Some((guard, _)) = self.guard {
            visit(guard);
        }
        if self.reads_carry() {
            visit(CARRY);
        }
    }

    /// Whether the instruction also reads its destination.
    pub fn updates_first(&self) -> bool {
        self.name == "wgmma"
    }

    pub fn reads_carry(&self) -> bool {
        matches!(self.name, "addc" | "subc" | "madc")
    }

    pub fn writes_carry(&self) -> bool {
        self.has("cc") && matches!(self.name, "add" | "sub" | "mad" | "addc" | "subc" | "madc")
    }
}

#[derive(Clone, Debug)]
pub enum Item<'a> {
    Label(LabelId),
    Op(Op<'a>),
}

/// A function's body.
#[derive(Debug, Default)]
pub struct Body<'a> {
    /// The first is [`CARRY`].
    pub registers: Vec<Scalar>,
    /// Registers of the parameters and returned values that are passed in registers.
    pub param_registers: Vec<Option<RegisterId>>,
    pub return_registers: Vec<Option<RegisterId>>,
    pub items: Vec<Item<'a>>,
    pub locals: Vec<Variable<'a>>,
    pub targets: Vec<Vec<LabelId>>,
    /// The signatures of calls through pointers.
    pub prototypes: Vec<Signature<'a>>,
}

impl<'a> Body<'a> {
    pub fn ops(&self) -> impl Iterator<Item = &Op<'a>> {
        self.items.iter().filter_map(|item| match item {
            Item::Op(op) => Some(op),
            Item::Label(_) => None,
        })
    }
}

/// The meaning of a module's names.
#[derive(Debug, Default)]
pub struct Names<'a> {
    pub variables: HashMap<&'a str, usize>,
    pub functions: HashMap<&'a str, usize>,
}

struct Range {
    count: u64,
    scalar: Scalar,
    known: HashMap<u64, RegisterId>,
}

#[derive(Default)]
struct Scope<'a> {
    number: usize,
    exact: HashMap<&'a str, Resolved<'a>>,
    ranges: HashMap<&'a str, Range>,
}

struct Resolver<'a, 'm> {
    names: &'m Names<'a>,
    /// Variables in shared, global or constant memory that the function declares.
    hoisted: &'m mut Vec<Variable<'a>>,
    /// The number of the module's own variables.
    first_hoisted: usize,
    scopes: Vec<Scope<'a>>,
    next_scope: usize,
    labels: HashMap<(&'a str, usize), LabelId>,
    /// Targets of all branches through lists so far.
    ways: usize,
    body: Body<'a>,
}

/// Resolves the names of a function's body. Variables of the function that are outside its frame are added to
/// `hoisted`, numbered from `first_hoisted`.
///
/// # Errors
/// The body uses an undefined name.
pub fn resolve<'a>(
    function: &Function<'a>,
    statements: &[Statement<'a>],
    module: &Module<'a>,
    names: &Names<'a>,
    hoisted: &mut Vec<Variable<'a>>,
    first_hoisted: usize,
) -> Result<Body<'a>, LiftError> {
    let mut labels = HashMap::new();
    let (mut stack, mut next) = (vec![0], 1);
    for statement in statements {
        match statement {
            Statement::Open => {
                stack.push(next);
                next += 1;
            }
            Statement::Close => {
                stack.pop();
            }
            Statement::Label { name, line } => {
                let number = labels.len() as LabelId;
                if labels.insert((*name, stack.last().copied().unwrap_or(0)), number).is_some() {
                    return Err(LiftError::at(*line, format!("the label {name} twice in {}", function.name)));
                }
            }
            _ => {}
        }
    }
    let mut resolver = Resolver {
        names,
        hoisted,
        first_hoisted,
        scopes: vec![Scope::default()],
        next_scope: 1,
        labels,
        ways: 0,
        body: Body { registers: vec![Scalar { kind: Kind::Predicate, bits: 1 }], ..Body::default() },
    };
    let Signature { params, returns } = &function.signature;
    resolver.body.param_registers = resolver.parameters(params, AddressBase::Param);
    resolver.body.return_registers = resolver.parameters(returns, AddressBase::Return);
    for statement in statements {
        resolver.statement(statement, module)?;
    }
    Ok(resolver.body)
}

impl<'a> Resolver<'a, '_> {
    fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("the function's own scope is never closed")
    }

    fn declare(&mut self, name: &'a str, meaning: Resolved<'a>) {
        self.scope().exact.insert(name, meaning);
    }

    fn register(&mut self, scalar: Scalar) -> RegisterId {
        self.body.registers.push(scalar);
        self.body.registers.len() as RegisterId - 1
    }

    /// The registers of parameters that are passed in some.
    fn parameters(&mut self, params: &[Param<'a>], place: fn(usize) -> AddressBase) -> Vec<Option<RegisterId>> {
        let parameter = |(index, param): (usize, &Param<'a>)| {
            let register = param.in_register.then(|| self.register(param.scalar));
            self.declare(param.name, register.map_or(Resolved::Address(place(index), 0), Resolved::Register));
            register
        };
        params.iter().enumerate().map(parameter).collect()
    }

    fn statement(&mut self, statement: &Statement<'a>, module: &Module<'a>) -> Result<(), LiftError> {
        match statement {
            Statement::Open => {
                self.scopes.push(Scope { number: self.next_scope, ..Scope::default() });
                self.next_scope += 1;
            }
            Statement::Close => {
                self.scopes.pop();
            }
            Statement::Label { name, .. } => {
                let number = self.scope().number;
                self.body.items.push(Item::Label(self.labels[&(*name, number)]));
            }
            Statement::Registers { scalar, names } => {
                for (name, count) in names {
                    match count {
                        Some(count) => {
                            let range = Range { count: *count, scalar: *scalar, known: HashMap::new() };
                            self.scope().ranges.insert(name, range);
                        }
                        None => {
                            let register = self.register(*scalar);
                            self.declare(name, Resolved::Register(register));
                        }
                    }
                }
            }
            Statement::Variable(variable) => {
                let place = match variable.space {
                    Space::Local | Space::Param => {
                        self.body.locals.push(variable.clone());
                        AddressBase::Local(self.body.locals.len() - 1)
                    }
                    _ if variable.linkage.external && self.names.variables.contains_key(variable.name) => {
                        AddressBase::Global(self.names.variables[variable.name])
                    }
                    _ => {
                        self.hoisted.push(variable.clone());
                        AddressBase::Global(self.first_hoisted + self.hoisted.len() - 1)
                    }
                };
                self.declare(variable.name, Resolved::Address(place, 0));
            }
            Statement::Targets { label, names, line } => {
                if let Some(labels) = names.iter().map(|name| self.label(name)).collect() {
                    self.body.targets.push(labels);
                    self.declare(label, Resolved::Targets(self.body.targets.len() - 1));
                } else if let Some(function) = self.names.functions.get(names[0]) {
                    // A list of functions, which all have the same signature.
                    self.prototype(label, module.functions[*function].signature.clone());
                } else {
                    return Err(LiftError::at(*line, format!("{} is not declared", names[0])));
                }
            }
            Statement::Prototype { label, signature } => self.prototype(label, signature.clone()),
            Statement::Instruction(instruction) => {
                let op = self.instruction(instruction)?;
                self.body.items.push(Item::Op(op));
            }
        }
        Ok(())
    }

    fn prototype(&mut self, label: &'a str, signature: Signature<'a>) {
        self.body.prototypes.push(signature);
        self.declare(label, Resolved::Prototype(self.body.prototypes.len() - 1));
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<Op<'a>, LiftError> {
        let line = instruction.line;
        let guard = match instruction.guard {
            None => None,
            Some((name, negated)) => Some((self.predicate(name, line)?, negated)),
        };
        let mut parts = instruction.text.split('.');
        let name = parts.next().unwrap_or_default();
        let operands =
            instruction.operands.iter().map(|operand| self.operand(operand, line)).collect::<Result<Vec<_>, _>>()?;
        if let Some(Resolved::Targets(targets)) = operands.last() {
            self.ways += self.body.targets[*targets].len();
            if self.ways > MOST_WAYS {
                return Err(LiftError::at(line, format!("more than {MOST_WAYS} targets of brx.idx in a function")));
            }
        }
        let (text, row, location) = (instruction.text, instructions::row(name), instruction.location);
        let modifiers: Vec<&str> = parts.collect();
        let (mut types, mut words) = (Vec::new(), Vec::new());
        for word in &modifiers {
            match Type::of(word) {
                Some(ty) => types.push(ty),
                None => words.push(*word),
            }
        }
        Ok(Op { guard, text, name, row, modifiers, types, words, operands, line, location })
    }

    fn predicate(&mut self, name: &str, line: u32) -> Result<RegisterId, LiftError> {
        match self.find(name) {
            Some(Resolved::Register(register)) => Ok(register),
            _ => Err(LiftError::at(line, format!("{name} is no predicate"))),
        }
    }

    fn label(&self, name: &str) -> Option<LabelId> {
        self.scopes.iter().rev().find_map(|scope| self.labels.get(&(name, scope.number)).copied())
    }

    fn find(&mut self, name: &str) -> Option<Resolved<'a>> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[prefix.len()..];
        for index in (0..self.scopes.len()).rev() {
            if let Some(meaning) = self.scopes[index].exact.get(name) {
                return Some(meaning.clone());
            }
            // `%r<10>` declares %r0 to %r9; a prefix may itself end with digits. Numbers have at most twenty digits.
            for split in digits.len().saturating_sub(20)..digits.len() {
                let (stem, number) = (&name[..prefix.len() + split], &digits[split..]);
                let Some(range) = self.scopes[index].ranges.get_mut(stem) else { continue };
                let Ok(number) = number.parse::<u64>() else { continue };
                if number >= range.count || (digits[split..].len() > 1 && digits[split..].starts_with('0')) {
                    continue;
                }
                let next = self.body.registers.len() as RegisterId;
                let register = *range.known.entry(number).or_insert(next);
                if register == next {
                    let scalar = range.scalar;
                    self.body.registers.push(scalar);
                }
                return Some(Resolved::Register(register));
            }
        }
        None
    }

    fn named(&mut self, name: &'a str, line: u32) -> Result<Resolved<'a>, LiftError> {
        let Names { variables, functions } = self.names;
        let of_module = |place| Resolved::Address(place, 0);
        let meaning = self
            .find(name)
            .or_else(|| self.label(name).map(Resolved::Label))
            .or_else(|| variables.get(name).map(|index| of_module(AddressBase::Global(*index))))
            .or_else(|| functions.get(name).map(|index| of_module(AddressBase::Function(*index))))
            .or_else(|| instructions::special_register(name).map(|_| Resolved::Special(name)));
        if let Some(meaning) = meaning {
            return Ok(meaning);
        }
        // Video instructions take bytes and halves of registers; vector registers have elements.
        if let Some((register, part)) = name.rsplit_once('.')
            && matches!(part, "b0" | "b1" | "b2" | "b3" | "h0" | "h1" | "x" | "y" | "z" | "w" | "r" | "g" | "b" | "a")
            && matches!(self.find(register), Some(Resolved::Register(_)))
        {
            return Err(LiftError::at(line, format!("a part of a register, {}", clip(name))));
        }
        Err(LiftError::at(line, format!("{} is not declared", clip(name))))
    }

    fn operand(&mut self, operand: &Operand<'a>, line: u32) -> Result<Resolved<'a>, LiftError> {
        let all = |this: &mut Self, items: &[Operand<'a>]| {
            items.iter().map(|item| this.operand(item, line)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match operand {
            Operand::Name(name) => self.named(name, line)?,
            Operand::Int(value) => Resolved::Int(*value),
            Operand::F32(bits) => Resolved::F32(*bits),
            Operand::F64(bits) => Resolved::F64(*bits),
            Operand::Sum(name, offset) => match self.named(name, line)? {
                Resolved::Register(register) => Resolved::Sum(register, *offset),
                Resolved::Address(place, from) => Resolved::Address(place, from.wrapping_add(*offset)),
                _ => return Err(LiftError::at(line, format!("an offset from {name}"))),
            },
            Operand::Not(name) => Resolved::Not(self.predicate(name, line)?),
            Operand::Pair(first, second) => {
                Resolved::Pair(Box::new(self.operand(first, line)?), Box::new(self.operand(second, line)?))
            }
            Operand::Vector(items) => Resolved::Vector(all(self, items)?),
            Operand::Bracket(items) => Resolved::Bracket(all(self, items)?),
            Operand::List(items) => Resolved::List(all(self, items)?),
            Operand::Sink => Resolved::Sink,
        })
    }
}
