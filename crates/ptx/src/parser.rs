//! The parser of PTX modules.

use super::constants::{Number, literal};
use super::error::LiftError;
use super::lexer::Token;
use super::reader::{DEEPEST, Parsed, Parser, clip};
use super::syntax::*;

/// The maximum size of a variable, bytes.
const LARGEST: u64 = 1 << 40;

/// Directives between a function's parameters and its body that have numbers.
const BOUNDS: [&str; 11] = [
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".explicitcluster", ".reqnctapercluster",
    ".maxclusterrank", ".blocksareclusters", ".abi_preserve", ".abi_preserve_control",
];

/// Parses a module.
///
/// # Errors
/// The text is not PTX, or contains an unsupported construct; with its line.
pub fn parse(text: &str) -> Result<Module<'_>, LiftError> {
    let mut parser = Parser::new(text);
    while parser.token != Token::End {
        parser.item()?;
    }
    Ok(parser.module)
}

/// The type of a variable or parameter, up to its name.
struct DeclaredType {
    /// The alignment, bytes. Without a declared one, that of a vector is its size.
    align: Option<u64>,
    scalar: Scalar,
    /// Number of elements of a vector.
    vector: Option<u64>,
}

fn is_name(word: &str) -> bool {
    !word.starts_with('.')
}

fn is_symbol(word: &str) -> bool {
    is_name(word) && word != "WARP_SZ"
}

impl<'a> Parser<'a> {
    fn name(&mut self) -> Parsed<&'a str> {
        match self.accept_word(is_name) {
            Some(word) => Ok(word),
            None => self.unexpected("a name"),
        }
    }

    fn skip_until_semicolon(&mut self) -> Parsed<()> {
        self.skip_to(0, b';')
    }

    /// A number in debug information; 0 for one that is never declared.
    fn debug_number(&mut self) -> Parsed<u32> {
        let Token::Number(text) = self.token else { return self.unexpected("a number") };
        self.bump();
        let number = literal(text).and_then(Number::integer);
        Ok(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
    }

    fn line_of_source(&mut self) -> Parsed<SourceLine> {
        Ok(SourceLine { file: self.debug_number()?, line: self.debug_number()?, column: self.debug_number()? })
    }

    /// `.file 1 "name", 1234, 5678`, also with a folder before the name.
    fn file(&mut self) -> Parsed<()> {
        self.bump();
        let number = self.debug_number()?;
        let mut names = Vec::new();
        while let Token::Text(name) = self.token {
            names.push(name);
            self.bump();
        }
        if names.is_empty() {
            return self.unexpected("the name of a file");
        }
        while self.accept(b',') {
            self.debug_number()?;
        }
        self.module.files.entry(number).or_insert(names);
        Ok(())
    }

    /// `.loc 1 20 5, function_name label+4, inlined_at 1 45 3`: the source of the following instructions.
    fn location(&mut self) -> Parsed<()> {
        self.bump();
        let place = self.line_of_source()?;
        let (mut function, mut inlined_at) = (None, None);
        while self.accept(b',') {
            match self.name()? {
                "function_name" => function = Some((self.name()?, self.offset()?)),
                "inlined_at" => inlined_at = Some(self.line_of_source()?),
                other => return self.fail(format!("'{}' in the directive .loc", clip(other))),
            }
        }
        self.location = Some(self.module.locations.len());
        self.module.locations.push(Location { place, function, inlined_at });
        Ok(())
    }

    /// `.section .debug_str { label: .b8 95, 90, 0 }`; other sections are dropped.
    fn section(&mut self) -> Parsed<()> {
        self.bump();
        if self.accept_word(|word| word == ".debug_str").is_none() {
            return self.skip_to(b'{', b'}');
        }
        self.expect(b'{')?;
        while !self.accept(b'}') {
            match self.bump() {
                Token::Word(label) if self.token == Token::Mark(b':') => {
                    self.module.name_labels.insert(label, self.module.names.len());
                }
                Token::Number(text) => {
                    let byte = literal(text).and_then(Number::integer).map_or(0, |number| number as u8);
                    self.module.names.push(byte);
                }
                Token::End => return self.unexpected("'}'"),
                _ => {}
            }
        }
        Ok(())
    }

    fn item(&mut self) -> Parsed<()> {
        let Token::Word(word) = self.token else {
            return if self.accept(b';') { Ok(()) } else { self.unexpected("a directive") };
        };
        match word {
            ".version" => {
                self.bump();
                let Token::Number(number) = self.bump() else { return self.unexpected("a version") };
                let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
                let part = |text: &str| text.parse::<u32>().ok().filter(|number| *number < 100);
                let (Some(major), Some(minor)) = (part(major), part(minor)) else {
                    return self.fail(format!("'{}' is no version", clip(number)));
                };
                self.module.version = major * 10 + minor.min(9);
            }
            ".target" => {
                self.bump();
                self.module.target = self.listed(Self::name)?[0];
            }
            ".address_size" => {
                self.bump();
                if self.bump() != Token::Number("64") {
                    return self.fail("addresses of 32 bits; compile the program for 64 bits (nvcc -m64)");
                }
            }
            ".file" => self.file()?,
            ".loc" => self.location()?,
            ".section" => self.section()?,
            ".pragma" => self.skip_until_semicolon()?,
            ".alias" => {
                self.bump();
                let line = self.line;
                let alias = self.name()?;
                self.expect(b',')?;
                let aliasee = self.name()?;
                self.expect(b';')?;
                self.module.aliases.push((alias, aliasee, line));
            }
            _ => self.declaration()?,
        }
        Ok(())
    }

    fn declaration(&mut self) -> Parsed<()> {
        let linkage = self.linkage();
        match self.token {
            Token::Word(word @ (".entry" | ".func")) => {
                self.bump();
                self.function(linkage, word == ".entry")
            }
            Token::Word(".global" | ".const" | ".shared" | ".local") => {
                let variables = self.variables(linkage)?;
                self.module.variables.extend(variables);
                Ok(())
            }
            Token::Word(word) => self.fail(format!("the directive '{}'", clip(word))),
            _ => self.unexpected("a declaration"),
        }
    }

    fn linkage(&mut self) -> Linkage {
        let mut linkage = Linkage::default();
        loop {
            match self.token {
                Token::Word(".extern") => linkage.external = true,
                Token::Word(".visible") => linkage.visible = true,
                // Definitions in several modules are merged.
                Token::Word(".weak" | ".common") => linkage.weak = true,
                _ => return linkage,
            }
            self.bump();
        }
    }

    fn function(&mut self, linkage: Linkage, entry: bool) -> Parsed<()> {
        let line = self.line;
        if self.token == Token::Word(".attribute") {
            return self.fail("attributes of functions (.attribute)");
        }
        let returns = self.params()?;
        let name = self.name()?;
        let mut params = self.params()?;
        for param in params.iter_mut().filter(|param| entry && param.align > Some(param.scalar.bytes())) {
            // A number with a larger alignment has another offset, so it is passed as bytes.
            param.bytes = param.bytes.or(Some(param.scalar.bytes()));
        }
        let (mut directives, mut noreturn) = (Vec::new(), false);
        loop {
            if self.token == Token::Word(".pragma") {
                self.skip_until_semicolon()?;
            } else if self.accept_word(|word| word == ".noreturn").is_some() {
                noreturn = true;
            } else if let Some(word) = self.accept_word(|word| BOUNDS.contains(&word)) {
                let has_numbers = matches!(self.token, Token::Number(_));
                let numbers = if has_numbers { self.listed(Self::size)? } else { Vec::new() };
                directives.push((&word[1..], numbers));
            } else {
                break;
            }
        }
        let body = if self.accept(b'{') {
            self.location = None;
            Some(self.body()?)
        } else {
            self.expect(b';')?;
            None
        };
        let signature = Signature { returns, params };
        self.module.functions.push(Function { linkage, entry, noreturn, name, signature, directives, body, line });
        Ok(())
    }

    /// Parameters in parentheses, if any.
    pub fn params(&mut self) -> Parsed<Vec<Param<'a>>> {
        if self.accept(b'(') { self.separated(b')', Self::param) } else { Ok(Vec::new()) }
    }

    fn param(&mut self) -> Parsed<Param<'a>> {
        let in_register = match self.bump() {
            Token::Word(".param") => false,
            Token::Word(".reg") => true,
            _ => return self.unexpected("a parameter (.param)"),
        };
        let DeclaredType { align, scalar, vector } = self.declared_type("parameters")?;
        let name = self.accept_word(is_name).unwrap_or("_");
        let (mut sizes, _) = self.dimensions()?;
        sizes.extend(vector);
        let bytes = if sizes.is_empty() { None } else { Some(self.bytes_of(scalar, &sizes)?) };
        Ok(Param { in_register, align, scalar, bytes, pointer: false, name })
    }

    /// The part of a declaration of `what` between the space and the name.
    fn declared_type(&mut self, what: &str) -> Parsed<DeclaredType> {
        let (mut align, mut scalar, mut vector) = (None, None, None);
        while let Some(word) = self.accept_word(|word| !is_name(word)) {
            match word {
                ".align" => align = Some(self.alignment()?),
                // Describes the pointer's target.
                ".ptr" => {
                    let of_pointers = [".align", ".global", ".const", ".shared", ".local", ".generic"];
                    while let Some(word) = self.accept_word(|word| of_pointers.contains(&word)) {
                        if word == ".align" {
                            self.alignment()?;
                        }
                    }
                }
                // The loader of the module provides memory shared by host and device.
                ".attribute" => self.skip_to(b'(', b')')?,
                ".v2" | ".v4" | ".v8" => vector = Some(u64::from(word.as_bytes()[2] - b'0')),
                ".texref" | ".samplerref" | ".surfref" => {
                    return self.fail(format!("{word} (textures by name); textures by handle are lifted"));
                }
                _ => match Scalar::of_declaration(&word[1..]) {
                    None => return self.fail(format!("{what} of the type {}", clip(word))),
                    known => scalar = known,
                },
            }
        }
        let Some(scalar) = scalar else { return self.unexpected("a type") };
        let align = align.or(vector.map(|vector| vector * scalar.bytes()));
        Ok(DeclaredType { align, scalar, vector })
    }

    /// Sizes in brackets, and whether the first is missing; it counts as 0.
    fn dimensions(&mut self) -> Parsed<(Vec<u64>, bool)> {
        let (mut sizes, mut is_open) = (Vec::new(), false);
        while self.accept(b'[') {
            if sizes.is_empty() && self.token == Token::Mark(b']') {
                is_open = true;
                sizes.push(0);
            } else {
                sizes.push(self.size()?);
            }
            self.expect(b']')?;
        }
        Ok((sizes, is_open))
    }

    fn bytes_of(&self, scalar: Scalar, sizes: &[u64]) -> Parsed<u64> {
        let bytes = sizes.iter().try_fold(scalar.bytes(), |total, size| total.checked_mul(*size));
        match bytes.filter(|bytes| *bytes <= LARGEST) {
            Some(bytes) => Ok(bytes),
            None => self.fail("a variable of more than a terabyte"),
        }
    }

    fn size(&mut self) -> Parsed<u64> {
        match u64::try_from(self.constant()?) {
            Ok(size) => Ok(size),
            Err(_) => self.fail("a negative size"),
        }
    }

    fn alignment(&mut self) -> Parsed<u64> {
        let align = self.size()?;
        if align.is_power_of_two() && align <= 1 << 20 {
            Ok(align)
        } else {
            self.fail(format!("the alignment {align}"))
        }
    }

    /// Variables of one declaration, with its semicolon.
    fn variables(&mut self, linkage: Linkage) -> Parsed<Vec<Variable<'a>>> {
        let space = match self.bump() {
            Token::Word(word) => Space::of(&word[1..]),
            _ => None,
        };
        let Some(space) = space else { return self.unexpected("a state space") };
        let DeclaredType { align, scalar, vector } = self.declared_type("variables")?;
        let variables = self.listed(|this| {
            let (line, name) = (this.line, this.name()?);
            // Parameterised names declare several variables.
            if this.token == Token::Mark(b'<') {
                return this.fail(format!("parameterised names of variables ({}<…>)", clip(name)));
            }
            let (mut sizes, mut is_open) = this.dimensions()?;
            sizes.extend(vector);
            let initial = if this.accept(b'=') { Some(this.initializer(0)?) } else { None };
            if let (true, Some(Initializer::List(items))) = (is_open, &initial) {
                is_open = false;
                sizes[0] = items.len() as u64;
            }
            let bytes = this.bytes_of(scalar, &sizes)?;
            let count = (!is_open).then(|| bytes / scalar.bytes());
            let (inner, is_array) = (sizes.iter().skip(1).copied().collect(), !sizes.is_empty());
            Ok(Variable { linkage, space, align, scalar, count, inner, is_array, name, initial, line })
        })?;
        self.expect(b';')?;
        Ok(variables)
    }

    fn initializer(&mut self, depth: u32) -> Parsed<Initializer<'a>> {
        if depth > DEEPEST {
            return self.fail("an initialiser that is nested too deeply");
        }
        if !self.accept(b'{') {
            return Ok(Initializer::Value(self.initial_value()?));
        }
        Ok(Initializer::List(self.separated(b'}', |this| this.initializer(depth + 1))?))
    }

    fn initial_value(&mut self) -> Parsed<Constant<'a>> {
        if let Some(word) = self.accept_word(is_symbol) {
            let generic = word == "generic" && self.accept(b'(');
            let name = if generic { self.name()? } else { word };
            let mut offset = self.offset()?;
            if generic {
                self.expect(b')')?;
                offset = offset.wrapping_add(self.offset()?);
            }
            return Ok(Constant::Address { name, offset, generic, mask: None });
        }
        match self.scalar_constant()? {
            Operand::Int(mask) if self.accept(b'(') => {
                let mut address = self.initial_value()?;
                self.expect(b')')?;
                let Constant::Address { mask: own @ None, .. } = &mut address else {
                    return self.fail("the mask 0xff(…) needs an address");
                };
                *own = Some(mask);
                Ok(address)
            }
            Operand::Int(value) => Ok(Constant::Int(value)),
            Operand::F32(bits) => Ok(Constant::F32(bits)),
            Operand::F64(bits) => Ok(Constant::F64(bits)),
            _ => self.unexpected("a constant"),
        }
    }

    /// The body of a function, after its opening brace.
    pub fn body(&mut self) -> Parsed<Vec<Statement<'a>>> {
        let (mut statements, mut depth) = (Vec::new(), 0);
        loop {
            if self.accept(b'{') {
                depth += 1;
                if depth > DEEPEST {
                    return self.fail("blocks that are nested too deeply");
                }
                statements.push(Statement::Open);
            } else if self.accept(b'}') {
                if depth == 0 {
                    return Ok(statements);
                }
                depth -= 1;
                statements.push(Statement::Close);
            } else if self.accept(b'@') {
                let negated = self.accept(b'!');
                let guard = Some((self.name()?, negated));
                statements.push(self.instruction(guard)?);
            } else if !self.accept(b';') {
                match self.token {
                    Token::Word(word) if !is_name(word) => self.directive(word, &mut statements)?,
                    Token::Word(label) if self.ahead() == Token::Mark(b':') => {
                        self.bump();
                        self.bump();
                        statements.push(self.labelled(label)?);
                    }
                    Token::Word(_) => statements.push(self.instruction(None)?),
                    _ => return self.unexpected("an instruction"),
                }
            }
        }
    }

    fn directive(&mut self, word: &'a str, statements: &mut Vec<Statement<'a>>) -> Parsed<()> {
        match word {
            ".file" => self.file()?,
            ".loc" => self.location()?,
            ".pragma" => self.skip_until_semicolon()?,
            ".reg" => {
                self.bump();
                if let Token::Word(".v2" | ".v4") = self.token {
                    return self.fail("registers that are vectors (.reg .v2, .reg .v4)");
                }
                let Token::Word(ty) = self.bump() else { return self.unexpected("a type") };
                let Some(scalar) = ty.strip_prefix('.').and_then(Scalar::of_declaration) else {
                    return self.fail(format!("registers of the type {}", clip(ty)));
                };
                let names = self.listed(Self::registers)?;
                self.expect(b';')?;
                statements.push(Statement::Registers { scalar, names });
            }
            ".param" | ".local" | ".shared" | ".global" | ".const" | ".extern" | ".visible" | ".weak" | ".common" => {
                let linkage = self.linkage();
                statements.extend(self.variables(linkage)?.into_iter().map(Statement::Variable));
            }
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                return self.fail(format!("{word} without a label"));
            }
            _ => return self.fail(format!("the directive '{}'", clip(word))),
        }
        Ok(())
    }

    /// `%r`, or `%r<10>` for several.
    fn registers(&mut self) -> Parsed<(&'a str, Option<u64>)> {
        let name = self.name()?;
        if !self.accept(b'<') {
            return Ok((name, None));
        }
        let Token::Number(number) = self.bump() else { return self.unexpected("a number") };
        self.expect(b'>')?;
        match literal(number).and_then(Number::integer) {
            Some(count) => Ok((name, Some(count as u64))),
            None => self.fail(format!("{} registers", clip(number))),
        }
    }

    /// The statement after `label:`.
    fn labelled(&mut self, label: &'a str) -> Parsed<Statement<'a>> {
        let line = self.line;
        if self.accept_word(|word| matches!(word, ".branchtargets" | ".calltargets")).is_some() {
            let names = self.listed(Self::name)?;
            if self.token == Token::Mark(b'<') {
                return self.fail("parameterised labels (.branchtargets L<4>)");
            }
            self.expect(b';')?;
            return Ok(Statement::Targets { label, names, line });
        }
        if self.accept_word(|word| word == ".callprototype").is_none() {
            return Ok(Statement::Label { name: label, line });
        }
        let returns = self.params()?;
        self.name()?;
        let params = self.params()?;
        self.skip_until_semicolon()?;
        Ok(Statement::Prototype { label, signature: Signature { returns, params } })
    }

    fn instruction(&mut self, guard: Option<(&'a str, bool)>) -> Parsed<Statement<'a>> {
        let (line, text, location) = (self.line, self.name()?, self.location);
        let of = |error: LiftError| LiftError::at(error.line, format!("{} (instruction {})", error.what, clip(text)));
        let operands = self.operands().map_err(of)?;
        Ok(Statement::Instruction(Instruction { guard, text, operands, line, location }))
    }

    /// The operands of an instruction, with its semicolon.
    fn operands(&mut self) -> Parsed<Vec<Operand<'a>>> {
        if self.accept(b';') {
            return Ok(Vec::new());
        }
        let operands = self.listed(|this| this.operand(0))?;
        self.expect(b';')?;
        Ok(operands)
    }

    fn list(&mut self, close: u8, depth: u32) -> Parsed<Vec<Operand<'a>>> {
        self.separated(close, |this| this.operand(depth + 1))
    }

    fn operand(&mut self, depth: u32) -> Parsed<Operand<'a>> {
        if depth > DEEPEST {
            return self.fail("an operand that is nested too deeply");
        }
        if self.accept(b'[') {
            return Ok(Operand::Bracket(self.list(b']', depth)?));
        }
        let operand = match self.token {
            Token::Mark(b'{') => {
                self.bump();
                Operand::Vector(self.list(b'}', depth)?)
            }
            Token::Mark(b'(') if depth == 0 => {
                // A list of arguments, or a constant expression.
                let (lexer, token, line) = (self.lexer.clone(), self.token, self.line);
                self.bump();
                if let Ok(list) = self.list(b')', depth)
                    && matches!(self.token, Token::Mark(b',' | b';'))
                {
                    return Ok(Operand::List(list));
                }
                (self.lexer, self.token, self.line) = (lexer, token, line);
                self.scalar_constant()?
            }
            Token::Mark(b'!') if matches!(self.ahead(), Token::Word(word) if is_name(word)) => {
                self.bump();
                return Ok(Operand::Not(self.name()?));
            }
            Token::Word("_") => {
                self.bump();
                Operand::Sink
            }
            Token::Word(word) if is_symbol(word) => {
                self.bump();
                match self.token {
                    Token::Mark(b'[') => {
                        return self.fail(format!("an element of an array by its number, {}[…]", clip(word)));
                    }
                    Token::Mark(b'+' | b'-') => Operand::Sum(word, self.offset()?),
                    _ => Operand::Name(word),
                }
            }
            _ => self.scalar_constant()?,
        };
        if self.accept(b'|') {
            let second = self.operand(depth + 1)?;
            return Ok(Operand::Pair(Box::new(operand), Box::new(second)));
        }
        Ok(operand)
    }
}
