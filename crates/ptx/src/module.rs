//! Variables, functions and attributes of a lifted module.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::context::{Context, Target, symbol};
use super::emitter::{Emitter, double_in, double_text, integer_text, single_in, single_text};
use super::error::LiftError;
use super::lifted::{LIFTED, Lifted};
use super::parser;
use super::passing::{by_value, function_type, passed_type, result_type};
use super::registers::{Registers, Ty, joined};
use super::resolve::{AddressBase, Body, Names, Resolved, resolve};
use super::syntax::*;

/// The keys of a kernel's annotations for the number of blocks in a cluster along each axis.
pub const CLUSTER: [&str; 3] = ["mneme_cluster_x", "mneme_cluster_y", "mneme_cluster_z"];

const LAYOUT: &str = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64";

/// Lifts a whole module.
///
/// # Errors
/// The module contains an unsupported construct; the error gives its name and line.
pub fn lift(text: &str) -> Result<Lifted, LiftError> {
    let mut module = parser::parse(text)?;
    module.functions.iter_mut().for_each(know_pointers);
    if module.version == 0 {
        return Err(LiftError::at(1, "the directive .version is missing: this is no PTX"));
    }
    let mut names = Names::default();
    let mut variables: Vec<Variable<'_>> = Vec::new();
    for variable in &module.variables {
        // A definition has more information than a declaration.
        match names.variables.get(variable.name) {
            Some(index) if variables[*index].linkage.external => variables[*index] = variable.clone(),
            Some(_) => {}
            None => {
                names.variables.insert(variable.name, variables.len());
                variables.push(variable.clone());
            }
        }
    }
    for (index, function) in module.functions.iter().enumerate() {
        let known = names.functions.entry(function.name).or_insert(index);
        if function.body.is_some() {
            *known = index;
        }
    }
    for (alias, aliasee, line) in &module.aliases {
        let missing = |what| LiftError::at(*line, format!("{aliasee} is not {what}"));
        let index = *names.functions.get(aliasee).ok_or_else(|| missing("declared"))?;
        module.functions[index].body.as_ref().ok_or_else(|| missing("defined"))?;
        names.functions.insert(alias, index);
    }
    for variable in variables.iter_mut().filter(|variable| matches!(variable.space, Space::Global | Space::Const)) {
        // The loader of the module finds variables by name, including hidden ones.
        variable.linkage.visible = true;
    }
    let (mut hoisted, mut bodies) = (Vec::new(), HashMap::new());
    for (index, function) in module.functions.iter().enumerate() {
        if let Some(statements) = &function.body {
            bodies.insert(index, resolve(function, statements, &module, &names, &mut hoisted, variables.len())?);
        }
    }
    let mut all: Vec<String> = variables.iter().map(|variable| variable.name.to_owned()).collect();
    let mut taken: HashMap<String, u32> = all.iter().map(|name| (name.clone(), 0)).collect();
    for variable in &mut hoisted {
        // Variables of functions are private to them.
        variable.linkage.visible = false;
        all.push(unused_name(&mut taken, variable.name));
    }
    variables.extend(hoisted);
    let dynamic = merge_dynamic(&mut variables, &mut all);
    let mut context = Context { variables, names: all, ..Context::new(Target::Nvptx, &module) };
    let mut ir = String::with_capacity(text.len() * 2);
    let _ = write!(ir, "target datalayout = \"{LAYOUT}\"\ntarget triple = \"nvptx64-nvidia-cuda\"\n\n");
    for index in (0..context.variables.len()).filter(|index| !dynamic.contains(index)) {
        let variable = &context.variables[index];
        let parts = Vec::new();
        ir.push_str(&Definition { context: &context, names: &names, variable, parts }.write(index)?);
    }
    let mut annotations = Vec::new();
    let mut directives = BTreeMap::new();
    for (index, function) in module.functions.iter().enumerate() {
        if names.functions.get(function.name) != Some(&index) {
            continue;
        }
        match bodies.get(&index) {
            Some(body) => define(&mut context, function, body, &mut ir)?,
            None => declare(function, &mut ir)?,
        }
        if function.entry && function.body.is_some() {
            annotate(function, &mut annotations, &mut directives)?;
        }
    }
    for (alias, aliasee, line) in &module.aliases {
        let index = names.functions[aliasee];
        let ty = function_type(&module.functions[index].signature, *line)?;
        let _ = writeln!(ir, "{} = alias {ty}, ptr {}", symbol(alias), symbol(module.functions[index].name));
    }
    for declaration in &context.declarations {
        let _ = writeln!(ir, "{declaration}");
    }
    let _ = write!(
        ir,
        "attributes #0 = {{ convergent nounwind \"no-builtins\" \"target-cpu\"=\"{}\" \
         \"target-features\"=\"+ptx{}\" }}\n\
         attributes #1 = {{ nounwind memory(none) }}\n\
         attributes #2 = {{ convergent nounwind memory(none) }}\n\
         attributes #3 = {{ convergent nounwind }}\n\
         attributes #4 = {{ convergent noreturn nounwind }}\n",
        module.target, module.version
    );
    let first = context.debug.write(&mut ir);
    if !annotations.is_empty() {
        let numbers = first..first + annotations.len();
        let _ = writeln!(ir, "!nvvm.annotations = !{{{}}}", joined(numbers.clone(), |number| format!("!{number}")));
        for (number, annotation) in numbers.zip(&annotations) {
            let _ = writeln!(ir, "!{number} = !{{{annotation}}}");
        }
    }
    let _ = writeln!(ir, "!{LIFTED} = !{{}}");
    let _ = writeln!(ir, "!llvm.ident = !{{!{0}}}\n!{0} = !{{!\"PTX, lifted\"}}", first + annotations.len());
    Ok(Lifted {
        ir,
        version: module.version,
        target: module.target.to_owned(),
        directives,
        statistics: context.statistics,
    })
}

/// An unused name derived from another one.
fn unused_name(taken: &mut HashMap<String, u32>, name: &str) -> String {
    let mut new = name.to_owned();
    while taken.contains_key(&new) {
        let last = taken.entry(name.to_owned()).or_default();
        *last += 1;
        new = format!("{name}${last}");
    }
    taken.insert(new.clone(), 0);
    new
}

/// Merges shared arrays without a size into one variable, because all begin where dynamic shared memory does. Returns
/// the others, which now have its name.
fn merge_dynamic(variables: &mut [Variable<'_>], names: &mut [String]) -> HashSet<usize> {
    let is_dynamic = |variable: &Variable<'_>| variable.space == Space::Shared && variable.count.is_none();
    let all: Vec<usize> = (0..variables.len()).filter(|index| is_dynamic(&variables[*index])).collect();
    let Some((first, others)) = all.split_first() else { return HashSet::new() };
    variables[*first].align = all.iter().map(|index| variables[*index].alignment()).max();
    for index in others {
        names[*index] = names[*first].clone();
    }
    others.iter().copied().collect()
}

/// Marks a kernel, and writes its launch bounds.
fn annotate(
    function: &Function<'_>,
    annotations: &mut Vec<String>,
    directives: &mut BTreeMap<String, Vec<String>>,
) -> Result<(), LiftError> {
    let name = symbol(function.name);
    let mut text = format!("ptr {name}, !\"kernel\", i32 1");
    for (directive, numbers) in &function.directives {
        let mut add = |key: &str, value: u64| {
            let _ = write!(text, ", !\"{key}\", i32 {}", value.min(u64::from(u32::MAX >> 1)));
        };
        let first = numbers.first().copied().unwrap_or(1);
        match *directive {
            "maxntid" | "reqntid" => {
                for (axis, number) in ["x", "y", "z"].iter().zip(numbers) {
                    add(&format!("{directive}{axis}"), *number);
                }
            }
            "minnctapersm" => add("minctasm", first),
            "maxnreg" => add("maxnreg", first),
            "maxclusterrank" => add("maxclusterrank", first),
            "explicitcluster" | "reqnctapercluster" | "blocksareclusters" => {
                if *directive == "reqnctapercluster" {
                    for (index, key) in CLUSTER.iter().enumerate() {
                        add(key, numbers.get(index).copied().unwrap_or(1));
                    }
                }
                let line = format!(".{directive} {}", joined(numbers, u64::to_string));
                directives.entry(function.name.to_owned()).or_default().push(line.trim_end().to_owned());
            }
            "maxnctapersm" => {}
            other => {
                let what = format!("the directive .{other} of the kernel {}", function.name);
                return Err(LiftError::at(function.line, what));
            }
        }
    }
    // Kernel parameters are read-only: their addresses are those of the launch.
    let constant = (1..).zip(&function.signature.params).filter(|(_, param)| param.bytes.is_some());
    let constant = joined(constant, |(number, _)| format!("i32 {number}"));
    if !constant.is_empty() {
        let _ = write!(text, ", !\"grid_constant\", !{{{constant}}}");
    }
    annotations.push(text);
    Ok(())
}

// Variables.

/// A part of a flattened initialiser.
enum Part {
    Zeros(u64),
    Value(String),
    /// An address, and the number of its bytes found so far. Compilers write an address into an array of bytes byte by
    /// byte; LLVM only has whole ones.
    Address(String, u32),
}

/// The definition of a variable.
struct Definition<'c> {
    context: &'c Context<'c>,
    names: &'c Names<'c>,
    variable: &'c Variable<'c>,
    /// The initialiser.
    parts: Vec<Part>,
}

impl Definition<'_> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T, LiftError> {
        Err(LiftError::at(self.variable.line, what))
    }

    fn write(mut self, index: usize) -> Result<String, LiftError> {
        let (variable, name) = (self.variable, self.context.variable_name(index));
        let Variable { linkage, space, count, .. } = *variable;
        let (element, align) = (Ty::stored(variable.scalar).text(), variable.alignment());
        if !matches!(space, Space::Global | Space::Shared | Space::Const) {
            return self.fail(format!("{}, a local variable outside of functions", variable.name));
        }
        // Other code may initialise the variable before any code of the module runs; shared memory starts with unknown
        // contents.
        let place = format!("addrspace({}) externally_initialized global", space.number());
        let Some(count) = count.filter(|_| !linkage.external) else {
            let count = count.unwrap_or(0);
            let ty = if variable.is_array { format!("[{count} x {element}]") } else { element.to_owned() };
            return Ok(format!("{name} = external {place} {ty}, align {align}\n"));
        };
        let linkage = match (linkage.weak, linkage.visible) {
            (true, _) => "weak_odr ",
            (_, true) => "",
            _ => "internal ",
        };
        let value = match &variable.initial {
            _ if space == Space::Shared => format!("[{count} x {element}] undef"),
            None => format!("[{count} x {element}] zeroinitializer"),
            Some(initial) => {
                let first = count / variable.inner.iter().product::<u64>().max(1);
                self.flatten(initial, &[&[first][..], &variable.inner].concat())?;
                if self.parts.iter().any(|part| matches!(part, Part::Address(_, bytes) if *bytes < 8)) {
                    return self.fail_in_part();
                }
                initial_text(&self.parts, element)
            }
        };
        Ok(format!("{name} = {linkage}{place} {value}, align {align}\n"))
    }

    fn fail_in_part<T>(&self) -> Result<T, LiftError> {
        self.fail(format!("{}, which is initialised with a part of an address", self.variable.name))
    }

    fn flatten(&mut self, initial: &Initializer<'_>, dimensions: &[u64]) -> Result<(), LiftError> {
        let name = self.variable.name;
        let items = match initial {
            Initializer::List(items) => items,
            Initializer::Value(Constant::Address { name, offset, generic, mask: Some(mask) }) => {
                let address = self.address(name, *offset, *generic)?;
                match self.parts.last_mut() {
                    _ if self.variable.scalar.bits != 8 => return self.fail_in_part(),
                    Some(Part::Address(begun, bytes))
                        if *begun == address && *bytes < 8 && *mask == 0xff << (8 * *bytes) =>
                    {
                        *bytes += 1;
                    }
                    _ if *mask == 0xff => self.parts.push(Part::Address(address, 1)),
                    _ => return self.fail_in_part(),
                }
                return Ok(());
            }
            Initializer::Value(constant) => {
                let part = self.constant(constant)?;
                self.parts.push(part);
                return Ok(());
            }
        };
        let Some((own, inner)) = dimensions.split_first() else {
            return self.fail(format!("{name}, whose initialiser has too many braces"));
        };
        let size: u64 = inner.iter().product();
        // Braces of inner dimensions are optional.
        let is_value = |item: &Initializer<'_>| matches!(item, Initializer::Value(_));
        let flat = !inner.is_empty() && items.iter().all(is_value);
        if !flat && !inner.is_empty() && items.iter().any(is_value) {
            return self.fail(format!("{name}, whose initialiser mixes braces"));
        }
        let most = if flat { own.saturating_mul(size) } else { *own };
        let Some(missing) = most.checked_sub(items.len() as u64) else {
            return self.fail(format!("{name} has more values than elements"));
        };
        for item in items {
            self.flatten(item, inner)?;
        }
        if missing > 0 {
            self.parts.push(Part::Zeros(if flat { missing } else { missing.saturating_mul(size) }));
        }
        Ok(())
    }

    fn constant(&self, constant: &Constant<'_>) -> Result<Part, LiftError> {
        let text = match (constant, Ty::stored(self.variable.scalar)) {
            (Constant::Int(value), Ty::Int(bits)) => Some(integer_text(*value, bits)),
            (Constant::Int(value), Ty::F32) => Some(single_text((*value as f32).to_bits())),
            (Constant::Int(value), Ty::F64) => Some(double_text((*value as f64).to_bits())),
            (Constant::F32(bits), ty) => single_in(*bits, ty),
            (Constant::F64(bits), ty) => double_in(*bits, ty),
            (Constant::Address { name, offset, generic, .. }, Ty::Int(64)) => {
                return Ok(Part::Address(self.address(name, *offset, *generic)?, 8));
            }
            _ => None,
        };
        match text {
            Some(text) => Ok(Part::Value(text)),
            None => self.fail(format!("the initial value of {}", self.variable.name)),
        }
    }

    /// The address of a symbol, in its own space or converted to generic, as a number.
    fn address(&self, name: &str, offset: i64, generic: bool) -> Result<String, LiftError> {
        let (base, space) = match (self.names.variables.get(name), self.names.functions.get(name)) {
            (Some(index), _) => (self.context.variable_name(*index), self.context.variables[*index].space.number()),
            (None, Some(index)) => (self.context.function_name(*index), 0),
            _ => return self.fail(format!("{name} is not declared")),
        };
        let own = Ty::Ptr(space).text();
        let pointer = if generic && space != 0 { format!("addrspacecast ({own} {base} to ptr)") } else { base };
        let own = if generic { "ptr" } else { own };
        let pointer = match offset {
            0 => pointer,
            offset => format!("getelementptr (i8, {own} {pointer}, i64 {offset})"),
        };
        Ok(format!("ptrtoint ({own} {pointer} to i64)"))
    }
}

fn initial_text(parts: &[Part], element: &str) -> String {
    // Runs of values stay arrays: the back end writes a single list anyway.
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for part in parts {
        let (ty, value) = match part {
            Part::Zeros(count) => (format!("[{count} x {element}]"), "zeroinitializer"),
            Part::Value(value) => (element.to_owned(), value.as_str()),
            Part::Address(value, _) => ("i64".to_owned(), value.as_str()),
        };
        values.push(format!("{ty} {value}"));
        types.push(ty);
    }
    let (count, types, values) = (types.len(), types.join(", "), values.join(", "));
    match parts.iter().all(|part| matches!(part, Part::Value(_))) {
        true => format!("[{count} x {element}] [{values}]"),
        false => format!("<{{ {types} }}> <{{ {values} }}>"),
    }
}

// Functions.

/// Functions of CUDA's device runtime that take or return addresses: which parameters are addresses, and whether the
/// result is one.
const POINTERS: [(&str, &[usize], bool); 4] =
    [("vprintf", &[0, 1], false), ("__assertfail", &[0, 1, 3], false), ("malloc", &[], true), ("free", &[0], false)];

/// Declares functions of the device runtime as front ends do.
fn know_pointers(function: &mut Function<'_>) {
    let Some((_, params, returns)) = POINTERS.iter().find(|(name, ..)| *name == function.name) else { return };
    if function.body.is_some() {
        return;
    }
    let is_word = |param: &Param<'_>| param.bytes.is_none() && param.scalar.bits == 64 && !param.scalar.is_float();
    for (index, param) in function.signature.params.iter_mut().enumerate() {
        param.pointer = params.contains(&index) && is_word(param);
    }
    function.signature.returns.iter_mut().for_each(|param| param.pointer = *returns && is_word(param));
}

fn declare(function: &Function<'_>, ir: &mut String) -> Result<(), LiftError> {
    let params = joined(&function.signature.params, |param| by_value(param).unwrap_or_else(|| passed_type(param)));
    let result = result_type(&function.signature, function.line)?;
    let noreturn = if function.noreturn { " noreturn" } else { "" };
    let _ = writeln!(ir, "declare {result} {}({params}) #3{noreturn}", symbol(function.name));
    Ok(())
}

/// How each parameter of a function is passed directly; only possible if all reads take the whole parameter.
fn direct(function: &Function<'_>, body: &Body<'_>, types: &[Ty]) -> Vec<Option<Ty>> {
    let params = &function.signature.params;
    let stored = |param: &Param<'_>| (param.bytes.is_none() && !param.in_register).then(|| Ty::stored(param.scalar));
    let mut direct: Vec<Option<Ty>> = params.iter().map(stored).collect();
    // A pointer has the type of its destination register.
    let mut pointers: Vec<Option<Ty>> = vec![None; direct.len()];
    for op in body.ops() {
        if let ("ld", [Resolved::Register(to), Resolved::Bracket(items)]) = (op.name, &op.operands[..])
            && let [Resolved::Address(AddressBase::Param(number), 0)] = items[..]
            && op.scalar().is_some_and(|scalar| scalar.bits == params[number].scalar.bits)
        {
            if let ty @ Ty::Ptr(_) = types[*to as usize] {
                pointers[number] = pointers[number].or(Some(ty));
            }
            continue;
        }
        let mut spoil = |leaf: &Resolved<'_>| {
            if let Resolved::Address(AddressBase::Param(number), _) = leaf {
                direct[*number] = None;
            }
        };
        op.operands.iter().for_each(|operand| operand.leaves(&mut spoil));
    }
    if function.entry {
        for (passed, pointer) in direct.iter_mut().zip(pointers) {
            if let (Some(Ty::Int(64)), Some(pointer)) = (&passed, pointer) {
                *passed = Some(pointer);
            }
        }
    }
    direct
}

/// The offsets in each parameter at which addresses are loaded.
fn pointers_in(function: &Function<'_>, body: &Body<'_>, types: &[Ty]) -> Vec<BTreeSet<u64>> {
    let mut pointers = vec![BTreeSet::new(); function.signature.params.len()];
    for op in body.ops() {
        if let ("ld", [Resolved::Register(to), Resolved::Bracket(places)]) = (op.name, &op.operands[..])
            && let ([Resolved::Address(AddressBase::Param(number), offset)], Ty::Ptr(_)) =
                (&places[..], types[*to as usize])
            && let (Ok(offset), 0) = (u64::try_from(*offset), offset % 8)
        {
            pointers[*number].insert(offset);
        }
    }
    pointers
}

/// The type of a kernel parameter that is passed as bytes, including addresses.
fn aggregate(param: &Param<'_>, pointers: &BTreeSet<u64>) -> String {
    let (size, mut end, mut parts) = (param.size(), 0, Vec::new());
    for offset in pointers.iter().filter(|offset| **offset + 8 <= size) {
        if *offset > end {
            parts.push(format!("[{} x i8]", offset - end));
        }
        parts.push("ptr".to_owned());
        end = offset + 8;
    }
    if parts.is_empty() || size > end {
        parts.push(format!("[{} x i8]", size - end));
    }
    format!("ptr byval(<{{ {} }}>) align {}", parts.join(", "), param.alignment())
}

fn define<'a>(
    context: &mut Context<'a>,
    function: &'a Function<'a>,
    body: &Body<'a>,
    ir: &mut String,
) -> Result<(), LiftError> {
    let registers = Registers::of(body, &context.variables);
    let direct = direct(function, body, &registers.types);
    let pointers = pointers_in(function, body, &registers.types);
    let params = joined(function.signature.params.iter().enumerate(), |(index, param)| {
        let ty = match by_value(param) {
            Some(_) if function.entry => aggregate(param, &pointers[index]),
            Some(ty) => ty,
            None => direct[index].map_or_else(|| passed_type(param), |ty| ty.text().to_owned()),
        };
        format!("{ty} %P{index}")
    });
    let result = if function.entry { "void".to_owned() } else { result_type(&function.signature, function.line)? };
    let linkage = match function.linkage {
        Linkage { weak: true, .. } => "weak_odr ",
        Linkage { visible: true, .. } => "",
        // The loader of the module looks kernels up by name.
        _ if function.entry => "",
        _ => "internal ",
    };
    let (code, place) = Emitter::new(context, function, body, registers, direct).write()?;
    let name = symbol(function.name);
    let _ = write!(ir, "define {linkage}{result} {name}({params}) #0{place} {{\nentry:\n{code}}}\n\n");
    Ok(())
}
