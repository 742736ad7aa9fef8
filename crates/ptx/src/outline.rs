//! PTX text: the part of a module that a kernel needs, its parameters and its variables.
//!
//! A module is a list of directives, functions and variables. [`PtxModule`] splits it at that level and searches bodies
//! for names only. This is fast, and also works for modules that the parser refuses.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::lexer::{Lexer, Token};
use super::parser;
use super::reader::Parser;
use super::syntax::{Constant, Initializer, Param};

/// A module, split into items.
#[derive(Debug, Default)]
pub struct PtxModule<'a> {
    items: Vec<Item<'a>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    /// The module has debug sections, which refer to every function.
    has_sections: bool,
}

#[derive(Debug)]
struct Item<'a> {
    text: &'a str,
    kind: Kind<'a>,
}

/// The items reachable from some items, and their features.
#[derive(Debug, Default)]
struct Reached {
    /// Indices of the items, and of the items that they reference directly or indirectly.
    items: BTreeSet<usize>,
    uses_textures: bool,
    calls_pointers: bool,
}

#[derive(Debug, PartialEq)]
enum Kind<'a> {
    Directive,
    Function { name: &'a str, entry: bool, body: bool },
    Variable { name: &'a str, space: &'a str, opaque: bool, initial: &'a str },
}

/// A `.global` or `.const` variable that a kernel reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxVariable {
    pub name: String,
    pub constant: bool,
    /// Its initial value holds addresses of functions or variables.
    pub holds_addresses: bool,
    /// Offsets of the words (8 bytes, aligned) whose initial values are addresses of functions.
    pub functions: Vec<u64>,
    /// A texture, surface or sampler reference.
    pub opaque: bool,
}

/// The part of a module that a kernel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxClosure {
    /// A module with only this kernel and the items that it reaches.
    pub text: String,
    /// Offset in the parameter buffer and size, bytes.
    pub parameters: Vec<(u32, u32)>,
    pub variables: Vec<PtxVariable>,
    /// Functions that are declared but not defined (`vprintf`, `malloc`).
    pub undefined: Vec<String>,
    pub target: Option<String>,
    /// The code has texture or surface instructions.
    pub uses_textures: bool,
    /// The code calls through pointers.
    pub calls_pointers: bool,
}

/// Instructions on textures and surfaces.
const TEXTURE_INSTRUCTIONS: [&str; 7] = ["tex", "tld4", "txq", "suld", "sust", "sured", "suq"];
/// Directives that an indirect call needs.
const INDIRECT_CALLS: [&str; 2] = [".callprototype", ".calltargets"];

/// Whether bytes are PTX text: a module begins with `.version`, after comments.
pub fn is_ptx(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    Lexer::new(&start).token() == Token::Word(".version")
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
}

/// The names in a text, including instructions.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = Lexer::new(text).filter_map(|token| match token {
        Token::Word(word) => word.split('.').next(),
        _ => None,
    });
    words.filter(|word| is_name(word))
}

impl<'a> PtxModule<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut module = Self::default();
        let mut lexer = Lexer::new(text);
        loop {
            lexer.skip_blanks();
            let start = lexer.place();
            let first = lexer.token();
            let item = match first {
                Token::End => break,
                // These directives end at the end of their line.
                Token::Word(".version" | ".target" | ".address_size" | ".file" | ".loc") => {
                    lexer.skip_line();
                    Item { text: &text[start..lexer.place()], kind: Kind::Directive }
                }
                _ => read(text, start, first, &mut lexer),
            };
            module.has_sections |= first == Token::Word(".section");
            if let Kind::Function { name, .. } | Kind::Variable { name, .. } = item.kind {
                module.by_name.entry(name).or_default().push(module.items.len());
            }
            module.items.push(item);
        }
        module
    }

    pub fn kernels(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().filter_map(|item| match item.kind {
            Kind::Function { name, entry: true, body: true } => Some(name),
            _ => None,
        })
    }

    /// The names of the module's `.global` and `.const` variables.
    pub fn variables(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().filter_map(|item| match item.kind {
            Kind::Variable { name, space: ".global" | ".const", .. } => Some(name),
            _ => None,
        })
    }

    /// The target, for example "sm_90a".
    pub fn target(&self) -> Option<&'a str> {
        names(self.items.iter().find_map(|item| item.text.strip_prefix(".target"))?).next()
    }

    /// The module without some of its kernels: the text of all others and the items that they need.
    pub fn without(&self, kernels: &HashSet<&str>) -> String {
        let is_kept = |kernel: &&str| !kernels.contains(kernel);
        let reached = self.reached(self.kernels().filter(is_kept).filter_map(|kernel| self.entry(kernel)));
        let parts = self.items.iter().enumerate().filter(|(index, item)| {
            reached.items.contains(index) || item.kind == Kind::Directive || matches!(item.kind, Kind::Variable { .. })
        });
        parts.map(|(_, item)| format!("{}\n", item.text.trim_end())).collect()
    }

    /// The parameters of `kernel`: offset in the parameter buffer and size, bytes; `None` if the module does not define
    /// it.
    pub fn parameters(&self, kernel: &str) -> Option<Vec<(u32, u32)>> {
        self.entry(kernel).map(|index| parameters(self.items[index].text))
    }

    fn entry(&self, kernel: &str) -> Option<usize> {
        let is_entry =
            |index: &usize| matches!(self.items[*index].kind, Kind::Function { entry: true, body: true, .. });
        self.by_name.get(kernel)?.iter().copied().find(is_entry)
    }

    /// These items, and all that they reference directly or indirectly.
    fn reached(&self, starts: impl Iterator<Item = usize>) -> Reached {
        let mut pending: Vec<usize> = starts.collect();
        let mut reached = Reached { items: pending.iter().copied().collect(), ..Reached::default() };
        while let Some(index) = pending.pop() {
            let item = &self.items[index];
            let is_function = matches!(item.kind, Kind::Function { .. });
            let mut own = match item.kind {
                Kind::Function { name, .. } | Kind::Variable { name, .. } => Some(name),
                Kind::Directive => None,
            };
            for word in names(item.text) {
                // The item's own name is not an instruction, and does not lead to a declaration of the item.
                if own == Some(word) {
                    own = None;
                    continue;
                }
                reached.uses_textures |= is_function && TEXTURE_INSTRUCTIONS.contains(&word);
                let named = self.by_name.get(word).into_iter().flatten().copied();
                pending.extend(named.filter(|index| reached.items.insert(*index)));
            }
            reached.calls_pointers |= is_function && INDIRECT_CALLS.iter().any(|word| item.text.contains(word));
        }
        reached
    }

    fn is_function(&self, name: &str) -> bool {
        let mut items = self.by_name.get(name).into_iter().flatten();
        items.any(|index| matches!(self.items[*index].kind, Kind::Function { .. }))
    }

    /// The part that `kernel` needs; `None` if the module does not define it. If the kernel calls through pointers, that
    /// includes all variables that refer to functions: memory may hold their addresses or copies of their words.
    pub fn closure(&self, kernel: &str) -> Option<PtxClosure> {
        let start = self.entry(kernel)?;
        let direct = self.reached(std::iter::once(start));
        let refers = |item: &Item<'_>| match item.kind {
            Kind::Variable { initial, .. } => names(initial).any(|name| self.is_function(name)),
            _ => false,
        };
        let tables = (0..self.items.len()).filter(|index| direct.calls_pointers && refers(&self.items[*index]));
        let reached = self.reached(std::iter::once(start).chain(tables));
        let is_defined = |name: &str| {
            let mut items = self.by_name[name].iter().map(|index| &self.items[*index]);
            items.any(|item| matches!(item.kind, Kind::Function { body: true, .. }))
        };
        let mut closure = PtxClosure {
            text: String::new(),
            parameters: parameters(self.items[start].text),
            variables: Vec::new(),
            undefined: Vec::new(),
            target: self.target().map(str::to_owned),
            uses_textures: reached.uses_textures,
            calls_pointers: reached.calls_pointers,
        };
        for (index, item) in self.items.iter().enumerate() {
            let needed = reached.items.contains(&index);
            // A table has the destructor that frees an object, whether or not the kernel calls it.
            let is_used =
                needed && (direct.items.contains(&index) || !matches!(item.kind, Kind::Function { name: "free", .. }));
            match item.kind {
                Kind::Function { name, .. } if is_used && !is_defined(name) => closure.undefined.push(name.to_owned()),
                Kind::Variable { name, space: space @ (".global" | ".const"), opaque, initial } if needed => {
                    let holds_addresses = names(initial).any(|word| self.by_name.contains_key(word));
                    closure.variables.push(PtxVariable {
                        name: name.to_owned(),
                        constant: space == ".const",
                        holds_addresses,
                        functions: self.function_words(item, initial),
                        opaque,
                    });
                }
                _ => {}
            }
            if needed || self.has_sections || item.kind == Kind::Directive {
                closure.text.push_str(item.text.trim_end());
                closure.text.push('\n');
            }
        }
        closure.undefined.sort_unstable();
        closure.undefined.dedup();
        Some(closure)
    }
}

impl PtxModule<'_> {
    /// Offsets of the words of a variable whose initial values are addresses of functions.
    fn function_words(&self, item: &Item<'_>, initial: &str) -> Vec<u64> {
        if !names(initial).any(|name| self.is_function(name)) {
            return Vec::new();
        }
        let Ok(module) = parser::parse(item.text) else { return Vec::new() };
        let mut found = Vec::new();
        for variable in &module.variables {
            let (bytes, inner) = (variable.scalar.bytes(), variable.inner.as_slice());
            let mut add = |place: u64, name: &str| {
                let offset = place.saturating_mul(bytes);
                found.extend((offset.is_multiple_of(8) && self.is_function(name)).then_some(offset));
            };
            if let Some(initial) = &variable.initial {
                addresses(initial, inner, true, 0, &mut add);
            }
        }
        found
    }
}

/// Calls `add` with each symbol in an initialiser, and the number of the element where its address begins. `inner` are
/// the dimensions inside of this value.
fn addresses<'a>(
    initial: &Initializer<'a>,
    inner: &[u64],
    is_outermost: bool,
    place: u64,
    add: &mut impl FnMut(u64, &'a str),
) {
    match initial {
        // Compilers write an address into bytes one by one.
        Initializer::Value(Constant::Address { name, mask: None | Some(0xff), .. }) => add(place, name),
        Initializer::Value(_) => {}
        Initializer::List(items) => {
            let inner = if is_outermost { inner } else { inner.get(1..).unwrap_or_default() };
            let is_flat = items.iter().all(|item| matches!(item, Initializer::Value(_)));
            let size = if is_flat { 1 } else { inner.iter().fold(1, |size: u64, next| size.saturating_mul(*next)) };
            for (item, number) in items.iter().zip(0u64..) {
                addresses(item, inner, false, place.saturating_add(number.saturating_mul(size)), add);
            }
        }
    }
}

/// Reads an item, starting at its first word.
fn read<'a>(text: &'a str, start: usize, first: Token<'a>, lexer: &mut Lexer<'a>) -> Item<'a> {
    let (mut depth, mut parentheses) = (0usize, 0usize);
    let (mut name, mut space, mut function, mut body, mut opaque) = (None, None, None, false, false);
    let mut initial = None;
    let mut token = first;
    loop {
        match token {
            Token::End => break,
            Token::Mark(b'{') if depth == 0 && function.is_some() && initial.is_none() => {
                body = lexer.skip_block();
                break;
            }
            Token::Mark(b'{') => depth += 1,
            Token::Mark(b'}') => {
                depth = depth.saturating_sub(1);
                // The end of a section.
                if depth == 0 && initial.is_none() {
                    break;
                }
            }
            Token::Mark(b';') if depth == 0 => break,
            Token::Mark(b'(') => parentheses += 1,
            Token::Mark(b')') => parentheses = parentheses.saturating_sub(1),
            Token::Mark(b'=') if depth == 0 && initial.is_none() => initial = Some(lexer.place()),
            Token::Word(word) if depth == 0 => match word {
                ".func" | ".entry" => function = Some(word == ".entry"),
                ".global" | ".const" | ".shared" | ".local" if function.is_none() => space = Some(word),
                ".texref" | ".surfref" | ".samplerref" => opaque = true,
                _ if parentheses == 0 && initial.is_none() && name.is_none() && is_name(word) => {
                    name = Some(word).filter(|_| function.is_some() || space.is_some());
                }
                _ => {}
            },
            _ => {}
        }
        token = lexer.token();
    }
    let kind = match (name, function, space) {
        (Some(name), Some(entry), _) => Kind::Function { name, entry, body },
        (Some(name), None, Some(space)) => Kind::Variable {
            name,
            space,
            opaque,
            initial: initial.and_then(|at| text.get(at..lexer.place())).unwrap_or(""),
        },
        _ => Kind::Directive,
    };
    Item { text: &text[start..lexer.place()], kind }
}

/// The parameters of an entry: offset and size, bytes.
fn parameters(entry: &str) -> Vec<(u32, u32)> {
    let mut parser = Parser::new(entry);
    while !matches!(parser.token, Token::Mark(b'(') | Token::End) {
        parser.bump();
    }
    let mut end = 0u32;
    let place = |param: Param<'_>| {
        let offset = end.checked_next_multiple_of(u32::try_from(param.alignment()).ok()?)?;
        let size = u32::try_from(param.size()).ok()?;
        end = offset.checked_add(size)?;
        Some((offset, size))
    };
    parser.params().unwrap_or_default().into_iter().map_while(place).collect()
}

/// Makes every `.global` variable of a module visible, so the driver finds it by name.
pub fn with_visible_variables(text: &str) -> Cow<'_, str> {
    let module = PtxModule::parse(text);
    let hidden = |item: &&Item<'_>| {
        matches!(item.kind, Kind::Variable { space: ".global", .. }) && item.text.starts_with(".global")
    };
    if !module.items.iter().any(|item| hidden(&item)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 256);
    for item in &module.items {
        if hidden(&item) {
            out.push_str(".visible ");
        }
        out.push_str(item.text);
        out.push('\n');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"//
// Generated by a compiler; .version in a comment
.version 8.4
.target sm_90a, texmode_independent
.address_size 64

	// .globl	first
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.global .align 4 .u32 _ZL7counter = 5;
.global .align 1 .b8 $str[4] = {37, 100, 10};
.visible .global .align 8 .u64 place = generic(_ZL7counter);
.global .align 8 .u64 table[2] = {twice, thrice};
.visible .const .align 4 .b8 coeff[16];
.global .attribute(.managed) .align 4 .u32 shared_with_host;
.global .texref image;
.extern .shared .align 16 .b8 smem[];
.func  (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r1; /* } */ st.param.b32 [r], %r1; ret; }
.func  (.param .b32 r) thrice(.param .b32 a);
.func  (.param .b32 r) thrice(.param .b32 a) { { ret; } }

.visible .entry first(
	.param .u64 .ptr .global .align 16 first_param_0,
	.param .u8 first_param_1,
	.param .align 4 .b8 first_param_2[12],
	.param .f64 first_param_3
)
.maxntid 128, 1, 1
{
	.reg .pred %p<2>;
	ld.global.u32 %r2, [_ZL7counter];
	ld.const.f32 %f1, [coeff+4];
	call.uni (retval0), vprintf, (param0, param1);
	mov.u64 %rd1, smem;
	ret;
}
.visible .entry second() { mov.u64 %rd1, table; mov.u64 %rd2, place; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, {%f5, %f6}]; ret; }
"#;

    #[test]
    fn a_kernel_takes_what_it_needs_and_no_more() {
        assert!(is_ptx(TEXT.as_bytes()) && !is_ptx(b"\x7fELF") && !is_ptx(b""));
        let module = PtxModule::parse(TEXT);
        assert_eq!(module.kernels().collect::<Vec<_>>(), ["first", "second"]);
        let closure = module.closure("first").unwrap();
        assert_eq!(module.parameters("second"), Some(vec![]));
        assert_eq!(module.parameters("thrice"), None);
        assert_eq!(closure.parameters, [(0, 8), (8, 1), (12, 12), (24, 8)]);
        let variable = |name: &str, constant, holds_addresses, opaque| PtxVariable {
            name: name.into(),
            constant,
            holds_addresses,
            functions: if name == "table" { vec![0, 8] } else { vec![] },
            opaque,
        };
        assert_eq!(
            closure.variables,
            [variable("_ZL7counter", false, false, false), variable("coeff", true, false, false)]
        );
        assert_eq!(closure.undefined, ["vprintf"]);
        assert_eq!(closure.target.as_deref(), Some("sm_90a"));
        for part in [".version 8.4", "vprintf", "_ZL7counter", "smem", ".maxntid"] {
            assert!(closure.text.contains(part), "{part}: {}", closure.text);
        }
        for part in ["second", "table", "twice", "image"] {
            assert!(!closure.text.contains(part), "{part}");
        }
        assert_eq!(PtxModule::parse(&closure.text).closure("first").unwrap(), closure, "a closure is its own closure");
        let second = module.closure("second").unwrap();
        assert_eq!(second.variables[0], variable("_ZL7counter", false, false, false));
        assert!(second.variables.contains(&variable("table", false, true, false)));
        assert!(second.variables.contains(&variable("place", false, true, false)));
        assert!(second.variables.contains(&variable("image", false, false, true)));
        assert!(second.text.contains("thrice(.param .b32 a) { {") && second.undefined.is_empty());
        assert!(module.closure("vprintf").is_none() && module.closure("none").is_none());
    }

    #[test]
    fn a_name_is_neither_an_instruction_nor_a_reference() {
        let text = ".version 8.0\n.target sm_90\n.visible .entry tex(.param .u64 a);\n\
                    .visible .entry tex(.param .u64 a) {\n\t// a brace: }\n\t.pragma \"{\";\n\tret;\n}\n";
        let module = PtxModule::parse(text);
        let closure = module.closure("tex").unwrap();
        assert!(!closure.uses_textures && closure.text.matches("tex(").count() == 1, "{closure:?}");
        assert!(closure.text.ends_with("ret;\n}\n"), "{}", closure.text);
        let cut = PtxModule::parse(&text[..text.len() - 3]);
        assert!(cut.closure("tex").is_none() && cut.kernels().next().is_none(), "its end is missing");
    }

    #[test]
    fn private_variables_become_visible_and_nothing_else_changes() {
        let visible = with_visible_variables(TEXT);
        assert!(visible.contains(".visible .global .align 4 .u32 _ZL7counter = 5;"));
        assert!(!visible.contains(".visible .visible") && visible.contains("\n.extern .shared"));
        assert!(matches!(with_visible_variables(&visible), Cow::Borrowed(_)));
        let constant = ".const .align 4 .u32 c;\n";
        assert_eq!(with_visible_variables(constant), constant);
    }

    #[test]
    fn a_module_may_do_without_some_of_its_kernels() {
        let module = PtxModule::parse(TEXT);
        let names: Vec<&str> = module.kernels().collect();
        let rest = module.without(&HashSet::from([names[0]]));
        let found: Vec<String> = PtxModule::parse(&rest).kernels().map(str::to_owned).collect();
        assert_eq!(found, names[1..]);
        assert_eq!(PtxModule::parse(&rest).variables().count(), module.variables().count());
        assert!(module.variables().count() > 0 && module.target().is_some());
        assert_eq!(PtxModule::parse(&module.without(&names.into_iter().collect())).kernels().count(), 0);
    }

    #[test]
    fn indirect_calls_need_all_variables_that_refer_to_functions() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n.func f() { ret; }\n.func g() { ret; }\n\
            .extern .func free(.param .u64 p);\n.func h() { call free, (%rd1); ret; }\n\
            .global .align 4 .u32 other;\n.global .align 8 .u64 own = h;\n\
            .global .align 8 .u64 nested[2][3] = {{0, f}, {1, 2, generic(g)}};\n\
            .global .align 8 .b8 packed[17] = {1, 0, 0, 0, 0, 0, 0, 0, 0xFF(g), 0xFF00(g), 0xFF0000(g), 0xFF000000(g), \
            0xFF00000000(g), 0xFF0000000000(g), 0xFF000000000000(g), 0xFF00000000000000(g), 7};\n\
            .visible .entry calls() { p: .callprototype _ (); call %rd1, (), p; ret; }\n\
            .visible .entry plain() { call f, (); ret; }\n";
        let module = PtxModule::parse(text);
        let functions = |kernel| {
            let variables = module.closure(kernel).unwrap().variables;
            variables.into_iter().map(|variable| (variable.name, variable.functions)).collect::<Vec<_>>()
        };
        assert_eq!(
            functions("calls"),
            [("own".into(), vec![0]), ("nested".into(), vec![8, 40]), ("packed".into(), vec![8])]
        );
        assert_eq!(functions("plain"), []);
        let calls = module.closure("calls").unwrap();
        assert!(calls.undefined.is_empty() && calls.text.contains("call free"), "{calls:?}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(at in 0usize..2400, with in "[\"{}()=;./*a% é\\n]{0,6}", cut in 0usize..2400) {
            let mut text = TEXT.to_owned();
            let at = at.min(text.len());
            text.insert_str(at, &with);
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) { cut -= 1; }
            for text in [text.as_str(), &text[cut..], &text[..cut]] {
                let module = PtxModule::parse(text);
                for kernel in module.kernels() { let _ = module.closure(kernel); }
                let _ = module.without(&module.kernels().take(1).collect());
                let _ = with_visible_variables(text);
                let _ = is_ptx(text.as_bytes());
            }
        }
    }
}
