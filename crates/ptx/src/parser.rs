//! The parser of PTX modules.

use super::constants::{Number, literal};
use super::error::LiftError;
use super::lexer::Token;
use super::reader::{DEEPEST, Parsed, Parser, clip};
use super::syntax::*;

/// The maximum size of a variable, bytes.
const LARGEST: u64 = 1 << 40;

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
    align: Option<u64>,
    scalar: Scalar,
    /// Number of elements of a vector.
    vector: u64,
}

impl<'a> Parser<'a> {
    fn name(&mut self) -> Parsed<&'a str> {
        match self.token {
            Token::Word(word) if !word.starts_with('.') => {
                self.bump();
                Ok(word)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn skip_until_semicolon(&mut self) -> Parsed<()> {
        while !self.accept(b';') {
            if self.bump() == Token::End {
                return self.unexpected("';'");
            }
        }
        Ok(())
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
        let Token::Text(_) = self.token else { return self.unexpected("the name of a file") };
        let mut names = Vec::new();
        while let Token::Text(name) = self.token {
            names.push(name);
            self.bump();
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
        let has_names = self.token == Token::Word(".debug_str");
        while self.token != Token::Mark(b'{') {
            if self.bump() == Token::End {
                return self.unexpected("'{'");
            }
        }
        let (mut depth, mut before) = (0u32, Token::End);
        loop {
            let token = self.bump();
            match token {
                Token::Mark(b'{') => depth += 1,
                Token::Mark(b'}') => depth -= 1,
                Token::Mark(b':') if has_names => {
                    if let Token::Word(label) = before {
                        self.module.name_labels.insert(label, self.module.names.len());
                    }
                }
                Token::Number(text) if has_names => {
                    let byte = literal(text).and_then(Number::integer).map_or(0, |number| number as u8);
                    self.module.names.push(byte);
                }
                Token::End => return self.unexpected("'}'"),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
            before = token;
        }
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
                self.module.target = self.name()?;
                while self.accept(b',') {
                    self.name()?;
                }
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
                Token::Word(".weak") => linkage.weak = true,
                // Definitions in several modules are merged.
                Token::Word(".common") => linkage.weak = true,
                _ => return linkage,
            }
            self.bump();
        }
    }

    fn function(&mut self, linkage: Linkage, entry: bool) -> Parsed<()> {
        let line = self.line;
        let mut directives = Vec::new();
        let mut noreturn = false;
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
        loop {
            match self.token {
                Token::Word(".noreturn") => {
                    self.bump();
                    noreturn = true;
                }
                Token::Word(".pragma") => self.skip_until_semicolon()?,
                Token::Word(
                    word @ (".maxntid"
                    | ".reqntid"
                    | ".minnctapersm"
                    | ".maxnctapersm"
                    | ".maxnreg"
                    | ".explicitcluster"
                    | ".reqnctapercluster"
                    | ".maxclusterrank"
                    | ".blocksareclusters"
                    | ".abi_preserve"
                    | ".abi_preserve_control"),
                ) => {
                    self.bump();
                    let mut numbers = Vec::new();
                    while let Token::Number(_) = self.token {
                        let Ok(number) = u64::try_from(self.constant()?) else {
                            return self.fail(format!("a negative number of {word}"));
                        };
                        numbers.push(number);
                        if !self.accept(b',') {
                            break;
                        }
                    }
                    directives.push((&word[1..], numbers));
                }
                _ => break,
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

    /// Items separated by commas, up to a closing character.
    fn separated<T>(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(item(self)?);
            if !self.accept(b',') && self.token != Token::Mark(close) {
                return self.unexpected("','");
            }
        }
        Ok(items)
    }

    /// Parameters in parentheses, if any.
    fn params(&mut self) -> Parsed<Vec<Param<'a>>> {
        if self.accept(b'(') { self.separated(b')', Self::param) } else { Ok(Vec::new()) }
    }

    fn param(&mut self) -> Parsed<Param<'a>> {
        let in_register = match self.bump() {
            Token::Word(".param") => false,
            Token::Word(".reg") => true,
            _ => return self.unexpected("a parameter (.param)"),
        };
        let DeclaredType { mut align, scalar, vector } = self.declared_type("parameters")?;
        let name = match self.token {
            Token::Word(_) => self.name()?,
            _ => "_",
        };
        let mut bytes = (vector > 1).then(|| vector * scalar.bytes());
        if vector > 1 {
            align = align.or(bytes);
        }
        while self.accept(b'[') {
            let count = if self.token == Token::Mark(b']') { 0 } else { self.size()? };
            self.expect(b']')?;
            bytes = Some(self.bounded(bytes.unwrap_or(scalar.bytes()).checked_mul(count))?);
        }
        Ok(Param { in_register, align, scalar, bytes, pointer: false, name })
    }

    /// The part of a declaration of `what` between the space and the name.
    fn declared_type(&mut self, what: &str) -> Parsed<DeclaredType> {
        let (mut align, mut scalar, mut vector) = (None, None, 1);
        while let Token::Word(word) = self.token
            && word.starts_with('.')
        {
            match word {
                ".align" => {
                    self.bump();
                    align = Some(self.alignment()?);
                    continue;
                }
                // Describes the pointer's target.
                ".ptr" => {
                    self.bump();
                    while let Token::Word(".align" | ".global" | ".const" | ".shared" | ".local" | ".generic") =
                        self.token
                    {
                        if self.bump() == Token::Word(".align") {
                            self.alignment()?;
                        }
                    }
                    continue;
                }
                // The loader of the module provides memory shared by host and device.
                ".attribute" => {
                    self.bump();
                    let mut depth = 0;
                    loop {
                        match self.bump() {
                            Token::Mark(b'(') => depth += 1,
                            Token::Mark(b')') => depth -= 1,
                            Token::End => return self.unexpected("')'"),
                            _ => {}
                        }
                        if depth == 0 {
                            break;
                        }
                    }
                    continue;
                }
                ".v2" | ".v4" | ".v8" => vector = u64::from(word.as_bytes()[2] - b'0'),
                ".texref" | ".samplerref" | ".surfref" => {
                    return self.fail(format!("{word} (textures by name); textures by handle are lifted"));
                }
                _ => {
                    scalar = Scalar::of_declaration(&word[1..]);
                    if scalar.is_none() {
                        return self.fail(format!("{what} of the type {}", clip(word)));
                    }
                }
            }
            self.bump();
        }
        match scalar {
            Some(scalar) => Ok(DeclaredType { align, scalar, vector }),
            None => self.unexpected("a type"),
        }
    }

    fn bounded(&self, bytes: Option<u64>) -> Parsed<u64> {
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
        let DeclaredType { mut align, scalar, vector } = self.declared_type("variables")?;
        let mut variables = Vec::new();
        loop {
            let line = self.line;
            let name = self.name()?;
            if vector > 1 {
                align = align.or(Some(vector * scalar.bytes()));
            }
            let (mut dimensions, mut is_array, mut open) = (Vec::new(), false, false);
            // Parameterised names declare several variables.
            if self.accept(b'<') {
                return self.fail(format!("parameterised names of variables ({}<…>)", clip(name)));
            }
            while self.accept(b'[') {
                if self.token == Token::Mark(b']') && dimensions.is_empty() {
                    open = true;
                    dimensions.push(0);
                } else {
                    let size = self.size()?;
                    dimensions.push(size);
                }
                is_array = true;
                self.expect(b']')?;
            }
            if vector > 1 {
                dimensions.push(vector);
                is_array = true;
            }
            let initial = if self.accept(b'=') { Some(self.initializer(0)?) } else { None };
            if let (true, Some(Initializer::List(items))) = (open, &initial) {
                open = false;
                dimensions[0] = items.len() as u64;
            }
            let total = dimensions.iter().try_fold(scalar.bytes(), |total, size| total.checked_mul(*size));
            let bytes = self.bounded(total)?;
            let count = (!open).then(|| bytes / scalar.bytes());
            let inner = dimensions.iter().skip(1).copied().collect();
            variables.push(Variable { linkage, space, align, scalar, count, inner, is_array, name, initial, line });
            if !self.accept(b',') {
                break;
            }
        }
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
        match self.token {
            Token::Word("generic") => {
                self.bump();
                self.expect(b'(')?;
                let name = self.name()?;
                let inside = self.offset()?;
                self.expect(b')')?;
                let offset = inside.wrapping_add(self.offset()?);
                Ok(Constant::Address { name, offset, generic: true })
            }
            Token::Word(word) if !word.starts_with('.') && word != "WARP_SZ" => {
                self.bump();
                Ok(Constant::Address { name: word, offset: self.offset()?, generic: false })
            }
            _ => match self.scalar_constant()? {
                Operand::Int(mask) if self.accept(b'(') => {
                    let address = self.initial_value()?;
                    self.expect(b')')?;
                    match address {
                        Constant::Address { name, offset, generic } => {
                            Ok(Constant::Masked { name, offset, generic, mask })
                        }
                        _ => self.fail("a mask of something that is no address"),
                    }
                }
                Operand::Int(value) => Ok(Constant::Int(value)),
                Operand::F32(bits) => Ok(Constant::F32(bits)),
                Operand::F64(bits) => Ok(Constant::F64(bits)),
                _ => self.unexpected("a constant"),
            },
        }
    }

    /// The body of a function, after its opening brace.
    pub fn body(&mut self) -> Parsed<Vec<Statement<'a>>> {
        let mut statements = Vec::new();
        let mut depth = 0;
        loop {
            match self.token {
                Token::Mark(b'{') => {
                    self.bump();
                    depth += 1;
                    if depth > DEEPEST {
                        return self.fail("blocks that are nested too deeply");
                    }
                    statements.push(Statement::Open);
                }
                Token::Mark(b'}') => {
                    self.bump();
                    if depth == 0 {
                        return Ok(statements);
                    }
                    depth -= 1;
                    statements.push(Statement::Close);
                }
                Token::Mark(b';') => {
                    self.bump();
                }
                Token::Mark(b'@') => {
                    self.bump();
                    let negated = self.accept(b'!');
                    let guard = (self.name()?, negated);
                    let instruction = self.instruction(Some(guard))?;
                    statements.push(instruction);
                }
                Token::Word(word) if word.starts_with('.') => self.directive(word, &mut statements)?,
                Token::Word(word) => {
                    let mut ahead = self.lexer.clone();
                    if ahead.token() == Token::Mark(b':') {
                        self.bump();
                        self.bump();
                        let statement = self.labelled(word)?;
                        statements.push(statement);
                    } else {
                        let instruction = self.instruction(None)?;
                        statements.push(instruction);
                    }
                }
                _ => return self.unexpected("an instruction"),
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
                let mut names = Vec::new();
                loop {
                    let name = self.name()?;
                    let count = if self.accept(b'<') {
                        let Token::Number(number) = self.bump() else { return self.unexpected("a number") };
                        self.expect(b'>')?;
                        let Some(count) = literal(number).and_then(Number::integer) else {
                            return self.fail(format!("{} registers", clip(number)));
                        };
                        Some(count as u64)
                    } else {
                        None
                    };
                    names.push((name, count));
                    if !self.accept(b',') {
                        break;
                    }
                }
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

    /// The statement after `label:`.
    fn labelled(&mut self, label: &'a str) -> Parsed<Statement<'a>> {
        let line = self.line;
        match self.token {
            Token::Word(".branchtargets" | ".calltargets") => {
                self.bump();
                let mut names = vec![self.name()?];
                loop {
                    if self.accept(b'<') {
                        return self.fail("parameterised labels (.branchtargets L<4>)");
                    }
                    if !self.accept(b',') {
                        break;
                    }
                    names.push(self.name()?);
                }
                self.expect(b';')?;
                Ok(Statement::Targets { label, names, line })
            }
            Token::Word(".callprototype") => {
                self.bump();
                let returns = self.params()?;
                self.name()?;
                let params = self.params()?;
                self.skip_until_semicolon()?;
                Ok(Statement::Prototype { label, signature: Signature { returns, params } })
            }
            _ => Ok(Statement::Label { name: label, line }),
        }
    }

    fn instruction(&mut self, guard: Option<(&'a str, bool)>) -> Parsed<Statement<'a>> {
        let line = self.line;
        let text = self.name()?;
        match self.operands() {
            Ok(operands) => {
                let location = self.location;
                Ok(Statement::Instruction(Instruction { guard, text, operands, line, location }))
            }
            Err(error) => Err(LiftError::at(error.line, format!("{} (instruction {})", error.what, clip(text)))),
        }
    }

    /// The operands of an instruction, with its semicolon.
    fn operands(&mut self) -> Parsed<Vec<Operand<'a>>> {
        let mut operands = Vec::new();
        if self.token != Token::Mark(b';') {
            loop {
                operands.push(self.operand(0)?);
                // `tex` has offsets and depth after brackets, and `call` its lists, separated by commas.
                if !self.accept(b',') {
                    break;
                }
            }
        }
        self.expect(b';')?;
        Ok(operands)
    }

    fn list(&mut self, close: u8, depth: u32) -> Parsed<Vec<Operand<'a>>> {
        self.separated(close, |this| this.operand(depth))
    }

    fn operand(&mut self, depth: u32) -> Parsed<Operand<'a>> {
        if depth > DEEPEST {
            return self.fail("an operand that is nested too deeply");
        }
        let operand = match self.token {
            Token::Mark(b'[') => {
                self.bump();
                return Ok(Operand::Bracket(self.list(b']', depth + 1)?));
            }
            Token::Mark(b'{') => {
                self.bump();
                Operand::Vector(self.list(b'}', depth + 1)?)
            }
            Token::Mark(b'(') if depth == 0 => {
                // A list of arguments, or a constant expression.
                let (lexer, token, line) = (self.lexer.clone(), self.token, self.line);
                self.bump();
                if let Ok(list) = self.list(b')', depth + 1)
                    && matches!(self.token, Token::Mark(b',' | b';'))
                {
                    return Ok(Operand::List(list));
                }
                (self.lexer, self.token, self.line) = (lexer, token, line);
                self.scalar_constant()?
            }
            Token::Mark(b'!') => {
                let mut ahead = self.lexer.clone();
                if let Token::Word(word) = ahead.token()
                    && !word.starts_with('.')
                {
                    self.bump();
                    return Ok(Operand::Not(self.name()?));
                }
                self.scalar_constant()?
            }
            Token::Word("_") => {
                self.bump();
                Operand::Sink
            }
            Token::Word(word) if !word.starts_with('.') && word != "WARP_SZ" => {
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
