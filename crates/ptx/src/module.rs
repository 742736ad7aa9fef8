//! Variables, functions and attributes of a lifted module.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::context::{Context, Target, symbol};
use super::emitter::{Emitter, double_text, integer_text, single_text};
use super::error::LiftError;
use super::lifted::{LIFTED, Lifted};
use super::parser;
use super::passing::{by_value, function_type, passed_type, result_type};
use super::registers::{Registers, Ty};
use super::resolve::{AddressBase, Body, Item, Names, Resolved, resolve};
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
        let Some(index) = names.functions.get(aliasee) else {
            return Err(LiftError::at(*line, format!("{aliasee} is not declared")));
        };
        if module.functions[*index].body.is_none() {
            return Err(LiftError::at(*line, format!("{aliasee} is not defined")));
        }
        names.functions.insert(alias, *index);
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
    let mut taken: HashMap<String, u32> = variables.iter().map(|variable| (variable.name.to_owned(), 0)).collect();
    let mut all: Vec<String> = variables.iter().map(|variable| variable.name.to_owned()).collect();
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
        let line = variable(&context, &names, index)?;
        ir.push_str(&line);
    }
    let mut annotations = Vec::new();
    let mut directives = BTreeMap::new();
    for (index, function) in module.functions.iter().enumerate() {
        if names.functions.get(function.name) != Some(&index) {
            continue;
        }
        match bodies.get(&index) {
            Some(body) => define(&mut context, function, body, &mut ir)?,
            None => declare(&context, function, &mut ir)?,
        }
        if function.entry && function.body.is_some() {
            annotate(function, &mut annotations, &mut directives)?;
        }
    }
    for (alias, aliasee, line) in &module.aliases {
        let index = names.functions[aliasee];
        let (ty, _) = function_type(&module.functions[index].signature, *line)?;
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
        let list = numbers.clone().map(|number| format!("!{number}")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(ir, "!nvvm.annotations = !{{{list}}}");
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
    let Some(last) = taken.get(name).copied() else {
        taken.insert(name.to_owned(), 0);
        return name.to_owned();
    };
    let numbers = last + 1..;
    let (number, new) = numbers
        .map(|number| (number, format!("{name}${number}")))
        .find(|(_, new)| !taken.contains_key(new))
        .unwrap_or_default();
    taken.insert(name.to_owned(), number);
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
                let numbers = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                let line = format!(".{directive} {numbers}");
                directives.entry(function.name.to_owned()).or_default().push(line.trim_end().to_owned());
            }
            "maxnctapersm" => {}
            other => {
                return Err(LiftError::at(
                    function.line,
                    format!("the directive .{other} of the kernel {}", function.name),
                ));
            }
        }
    }
    // Kernel parameters are read-only: their addresses are those of the launch.
    let constant: Vec<String> = (1..)
        .zip(&function.signature.params)
        .filter(|(_, param)| param.bytes.is_some())
        .map(|(number, _)| format!("i32 {number}"))
        .collect();
    if !constant.is_empty() {
        let _ = write!(text, ", !\"grid_constant\", !{{{}}}", constant.join(", "));
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

fn variable(context: &Context<'_>, names: &Names<'_>, index: usize) -> Result<String, LiftError> {
    let variable = &context.variables[index];
    let name = context.variable_name(index);
    let element = Ty::stored(variable.scalar).text();
    let align = variable.alignment();
    let space = match variable.space {
        Space::Global => 1,
        Space::Shared => 3,
        Space::Const => 4,
        _ => {
            return Err(LiftError::at(
                variable.line,
                format!("{}, a local variable outside of functions", variable.name),
            ));
        }
    };
    // Other code may initialise the variable before any code of the module runs; shared memory starts with unknown
    // contents.
    let loaded = "externally_initialized ";
    if variable.linkage.external || variable.count.is_none() {
        let count = variable.count.unwrap_or(0);
        let ty = if variable.is_array { format!("[{count} x {element}]") } else { element.to_owned() };
        return Ok(format!("{name} = external addrspace({space}) {loaded}global {ty}, align {align}\n"));
    }
    let count = variable.count.unwrap_or(1);
    let linkage = match (variable.linkage.weak, variable.linkage.visible) {
        (true, _) => "weak_odr ",
        (_, true) => "",
        _ => "internal ",
    };
    let value = match &variable.initial {
        _ if space == 3 => format!("[{count} x {element}] undef"),
        None => format!("[{count} x {element}] zeroinitializer"),
        Some(initial) => {
            let mut parts = Vec::new();
            flatten(
                context,
                names,
                variable,
                initial,
                &[&[count_of_first(variable)][..], &variable.inner].concat(),
                &mut parts,
            )?;
            let is_part = |part: &Part| matches!(part, Part::Address(_, bytes) if *bytes < 8);
            if parts.iter().any(is_part) || (variable.scalar.bits != 8 && has_masks(initial)) {
                return Err(in_part(variable));
            }
            initial_text(&parts, element)
        }
    };
    Ok(format!("{name} = {linkage}addrspace({space}) {loaded}global {value}, align {align}\n"))
}

fn in_part(variable: &Variable<'_>) -> LiftError {
    LiftError::at(variable.line, format!("{}, which is initialised with a part of an address", variable.name))
}

fn has_masks(initial: &Initializer<'_>) -> bool {
    match initial {
        Initializer::Value(constant) => matches!(constant, Constant::Masked { .. }),
        Initializer::List(items) => items.iter().any(has_masks),
    }
}

fn count_of_first(variable: &Variable<'_>) -> u64 {
    let inner: u64 = variable.inner.iter().product::<u64>().max(1);
    variable.count.unwrap_or(1) / inner
}

fn initial_text(parts: &[Part], element: &str) -> String {
    let is_plain = parts.iter().all(|part| matches!(part, Part::Value(_)));
    if is_plain {
        let values = parts.iter().map(|part| match part {
            Part::Value(value) => format!("{element} {value}"),
            _ => String::new(),
        });
        return format!("[{} x {element}] [{}]", parts.len(), values.collect::<Vec<_>>().join(", "));
    }
    // Runs of values stay arrays: the back end writes a single list anyway.
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for part in parts {
        let (ty, value) = match part {
            Part::Zeros(0) => continue,
            Part::Zeros(count) => (format!("[{count} x {element}]"), "zeroinitializer".to_owned()),
            Part::Value(value) => (element.to_owned(), value.clone()),
            Part::Address(value, _) => ("i64".to_owned(), value.clone()),
        };
        values.push(format!("{ty} {value}"));
        types.push(ty);
    }
    format!("<{{ {} }}> <{{ {} }}>", types.join(", "), values.join(", "))
}

fn flatten(
    context: &Context<'_>,
    names: &Names<'_>,
    variable: &Variable<'_>,
    initial: &Initializer<'_>,
    dimensions: &[u64],
    parts: &mut Vec<Part>,
) -> Result<(), LiftError> {
    match initial {
        Initializer::Value(Constant::Masked { name, offset, generic, mask }) => {
            let address = address_text(context, names, variable, (name, *offset, *generic))?;
            match parts.last_mut() {
                Some(Part::Address(begun, bytes))
                    if *begun == address && *bytes < 8 && *mask == 0xff << (8 * *bytes) =>
                {
                    *bytes += 1;
                }
                _ if *mask == 0xff => parts.push(Part::Address(address, 1)),
                _ => return Err(in_part(variable)),
            }
        }
        Initializer::Value(constant) => parts.push(constant_part(context, names, variable, constant)?),
        Initializer::List(items) => {
            let Some((own, inner)) = dimensions.split_first() else {
                return Err(LiftError::at(
                    variable.line,
                    format!("{}, whose initialiser has too many braces", variable.name),
                ));
            };
            let size: u64 = inner.iter().product();
            // Braces of inner dimensions are optional.
            let flat = !inner.is_empty() && items.iter().all(|item| matches!(item, Initializer::Value(_)));
            let most = if flat { own.saturating_mul(size) } else { *own };
            if items.len() as u64 > most {
                return Err(LiftError::at(variable.line, format!("{} has more values than elements", variable.name)));
            }
            for item in items {
                match item {
                    Initializer::Value(_) if !flat && !inner.is_empty() => {
                        return Err(LiftError::at(
                            variable.line,
                            format!("{}, whose initialiser mixes braces", variable.name),
                        ));
                    }
                    item => flatten(context, names, variable, item, inner, parts)?,
                }
            }
            let missing = most - items.len() as u64;
            let zeros = if flat { missing } else { missing.saturating_mul(size) };
            if zeros > 0 {
                parts.push(Part::Zeros(zeros));
            }
        }
    }
    Ok(())
}

fn constant_part(
    context: &Context<'_>,
    names: &Names<'_>,
    variable: &Variable<'_>,
    constant: &Constant<'_>,
) -> Result<Part, LiftError> {
    let scalar = variable.scalar;
    let ty = Ty::stored(scalar);
    let wrong = || LiftError::at(variable.line, format!("the initial value of {}", variable.name));
    Ok(Part::Value(match (constant, ty) {
        (Constant::Int(value), Ty::Int(bits)) => integer_text(*value, bits),
        (Constant::Int(value), Ty::F32) => single_text((*value as f32).to_bits()),
        (Constant::Int(value), Ty::F64) => double_text((*value as f64).to_bits()),
        (Constant::F32(bits), Ty::F32) => single_text(*bits),
        (Constant::F32(bits), Ty::Int(32)) => bits.to_string(),
        (Constant::F64(bits), Ty::F64) => double_text(*bits),
        (Constant::F64(bits), Ty::F32) => single_text((f64::from_bits(*bits) as f32).to_bits()),
        (Constant::F64(bits), Ty::Int(64)) => bits.to_string(),
        (Constant::Address { name, offset, generic }, Ty::Int(64)) => {
            return Ok(Part::Address(address_text(context, names, variable, (name, *offset, *generic))?, 8));
        }
        _ => return Err(wrong()),
    }))
}

/// The address of a symbol, in its own space or converted to generic, as a number.
fn address_text(
    context: &Context<'_>,
    names: &Names<'_>,
    variable: &Variable<'_>,
    (name, offset, generic): (&str, i64, bool),
) -> Result<String, LiftError> {
    let (base, space) = match (names.variables.get(name), names.functions.get(name)) {
        (Some(index), _) => (context.variable_name(*index), context.variables[*index].space.number()),
        (None, Some(index)) => (context.function_name(*index), 0),
        _ => return Err(LiftError::at(variable.line, format!("{name} is not declared"))),
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

fn declare(context: &Context<'_>, function: &Function<'_>, ir: &mut String) -> Result<(), LiftError> {
    let _ = context;
    let params: Vec<String> =
        function.signature.params.iter().map(|param| by_value(param).unwrap_or_else(|| passed_type(param))).collect();
    let result = result_type(&function.signature, function.line)?;
    let noreturn = if function.noreturn { " noreturn" } else { "" };
    let _ = writeln!(ir, "declare {result} {}({}) #3{noreturn}", symbol(function.name), params.join(", "));
    Ok(())
}

/// How each parameter of a function is passed directly; only possible if all reads take the whole parameter.
fn direct(function: &Function<'_>, body: &Body<'_>, types: &[Ty]) -> Vec<Option<Ty>> {
    let mut direct: Vec<Option<Ty>> = function
        .signature
        .params
        .iter()
        .map(|param| (param.bytes.is_none() && !param.in_register).then(|| Ty::stored(param.scalar)))
        .collect();
    // A pointer has the type of its destination register.
    let mut pointers: Vec<Option<Ty>> = vec![None; direct.len()];
    for item in &body.items {
        let Item::Op(op) = item else { continue };
        let is_load = op.name == "ld" && op.operands.len() == 2;
        for (index, operand) in op.operands.iter().enumerate() {
            let mut spoil = |place: &AddressBase| {
                if let AddressBase::Param(number) = place {
                    direct[*number] = None;
                }
            };
            match operand {
                Resolved::Bracket(items) => match &items[..] {
                    [Resolved::Address(AddressBase::Param(number), 0)] if is_load && index == 1 => {
                        let whole = op
                            .scalar()
                            .is_some_and(|scalar| scalar.bits == function.signature.params[*number].scalar.bits);
                        match &op.operands[0] {
                            Resolved::Register(register) if whole => {
                                if let ty @ Ty::Ptr(_) = types[*register as usize] {
                                    pointers[*number] = pointers[*number].or(Some(ty));
                                }
                            }
                            _ => spoil(&AddressBase::Param(*number)),
                        }
                    }
                    items => items.iter().for_each(|item| {
                        if let Resolved::Address(place, _) = item {
                            spoil(place);
                        }
                    }),
                },
                Resolved::Address(place, _) => spoil(place),
                Resolved::Vector(items) | Resolved::List(items) => items.iter().for_each(|item| {
                    if let Resolved::Address(place, _) = item {
                        spoil(place);
                    }
                }),
                _ => {}
            }
        }
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
    for item in &body.items {
        let Item::Op(op) = item else { continue };
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
    let params: Vec<String> = function
        .signature
        .params
        .iter()
        .enumerate()
        .map(|(index, param)| {
            let ty = match by_value(param) {
                Some(_) if function.entry => aggregate(param, &pointers[index]),
                Some(ty) => ty,
                None => direct[index].map_or_else(|| passed_type(param), |ty| ty.text().to_owned()),
            };
            format!("{ty} %P{index}")
        })
        .collect();
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
    let _ = write!(ir, "define {linkage}{result} {name}({}) #0{place} {{\nentry:\n{code}}}\n\n", params.join(", "));
    Ok(())
}
