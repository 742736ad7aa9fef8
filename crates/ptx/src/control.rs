//! Branches, calls and returns.

use super::context::Target;
use super::emitter::Emitter;
use super::error::LiftError;
use super::passing;
use super::registers::Ty;
use super::resolve::{AddressBase, Op, Resolved};
use super::syntax::Signature;

impl<'a> Emitter<'a, '_> {
    /// Lifts control flow; false for other instructions.
    pub fn control(&mut self, op: &Op<'a>) -> Result<bool, LiftError> {
        match op.name {
            // Inline assembly must not branch here.
            _ if self.is_cpu() => return Ok(false),
            "bra" => {
                let [Resolved::Label(label)] = op.operands[..] else {
                    return Err(LiftError::at(op.line, "a branch to no label"));
                };
                self.guarded(op, |this| this.jump(&format!("L{label}")));
            }
            "ret" => self.guarded(op, Self::leave),
            "exit" => self.guarded(op, Self::exit),
            "trap" => self.guarded(op, |this| {
                this.line("call void asm sideeffect \"trap;\", \"~{memory}\"() #3");
                this.next_block();
            }),
            "brx" => {
                let [index, Resolved::Targets(targets)] = &op.operands[..] else {
                    return Err(LiftError::at(op.line, "brx.idx without a list of targets"));
                };
                let index = self.read(index, Ty::Int(32)).ok_or_else(|| LiftError::at(op.line, op.text))?;
                let targets = &self.body.targets[*targets];
                self.guarded(op, |this| {
                    this.end_with(|this| {
                        let Some(last) = targets.last() else { return this.line("unreachable") };
                        let case = |(number, label)| format!(" i32 {number}, label %L{label}");
                        let cases: String = targets.iter().enumerate().map(case).collect();
                        this.line(format_args!("switch i32 {index}, label %L{last} [{cases} ]"));
                    });
                });
            }
            "call" => {
                let mut outcome = Ok(());
                self.guarded(op, |this| {
                    outcome = this.call_function(op);
                    // A thread that skips the call continues after it.
                    if op.guard.is_some() {
                        this.next_block();
                    }
                });
                outcome?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes code for threads whose guard holds; the others skip it.
    pub fn guarded(&mut self, op: &Op<'a>, inside: impl FnOnce(&mut Self)) {
        let Some((register, negated)) = op.guard else { return inside(self) };
        let condition = self.read_register(register, Ty::Int(1));
        let (taken, next) = (self.block(), self.block());
        let (yes, no) = if negated { (&next, &taken) } else { (&taken, &next) };
        self.end_with(|this| this.line(format_args!("br i1 {condition}, label %{yes}, label %{no}")));
        self.begin(&taken);
        inside(self);
        self.jump(&next);
        self.begin(&next);
    }

    fn next_block(&mut self) {
        let block = self.block();
        self.jump(&block);
        self.begin(&block);
    }

    /// Returns from the function.
    pub fn leave(&mut self) {
        if let Target::Cpu(results) = &self.context.target {
            let results = results.clone();
            return self.give(&results);
        }
        let function = self.function;
        if function.entry || function.signature.returns.is_empty() {
            return self.end_with(|this| this.line("ret void"));
        }
        let ty = passing::passed_type(&function.signature.returns[0]);
        if self.ended {
            return;
        }
        let value = match self.body.return_registers.first().copied().flatten() {
            Some(register) => self.read_register(register, Ty::stored(function.signature.returns[0].scalar)),
            None => self.value(format_args!("load {ty}, ptr %Q0")),
        };
        self.end_with(|this| this.line(format_args!("ret {ty} {value}")));
    }

    /// Ends the thread.
    fn exit(&mut self) {
        if self.function.entry {
            return self.end_with(|this| this.line("ret void"));
        }
        self.line("call void asm sideeffect \"exit;\", \"~{memory}\"() #4");
        self.end_with(|this| this.line("unreachable"));
    }

    fn call_function(&mut self, op: &Op<'a>) -> Result<(), LiftError> {
        let refuse = |what: &str| LiftError::at(op.line, format!("call: {what}"));
        let (returned, operands) = match &op.operands[..] {
            [Resolved::List(list), rest @ ..] if !rest.is_empty() => (&list[..], rest),
            all => (&[][..], all),
        };
        let Some((callee, rest)) = operands.split_first() else { return Err(refuse("nothing is called")) };
        let (arguments, rest) = match rest {
            [Resolved::List(list), rest @ ..] => (&list[..], rest),
            rest => (&[][..], rest),
        };
        let module = self.context.module;
        let body = self.body;
        let (target, signature): (String, &Signature<'a>) = match callee {
            Resolved::Address(AddressBase::Function(index), 0) => {
                (self.context.function_name(*index), &module.functions[*index].signature)
            }
            Resolved::Register(_) => {
                let [Resolved::Prototype(number)] = rest else {
                    return Err(refuse("a pointer is called without a prototype"));
                };
                let target = self.read(callee, Ty::Ptr(0)).ok_or_else(|| refuse("no address is called"))?;
                (target, &body.prototypes[*number])
            }
            _ => return Err(refuse("no function is called")),
        };
        if arguments.len() != signature.params.len() || returned.len() != signature.returns.len() {
            return Err(refuse("the numbers of arguments or results are not those of the function"));
        }
        let pointer = |this: &mut Self, place: AddressBase, offset: i64| match this.address_of(place, offset) {
            Some((pointer, _)) => Ok(pointer),
            None => Err(refuse("an argument or result without a place")),
        };
        let mut passed = Vec::new();
        for (argument, param) in arguments.iter().zip(&signature.params) {
            let wanted = passing::passed(param);
            let value = match (argument, passing::by_value(param)) {
                (Resolved::Address(place, offset), Some(attributes)) => {
                    passed.push(format!("{attributes} {}", pointer(self, *place, *offset)?));
                    continue;
                }
                (_, Some(_)) => return Err(refuse("an aggregate that is not in memory")),
                (Resolved::Address(place, offset), None) if place.is_in_frame() => match self.direct_value(*place) {
                    Some((value, ty)) => self.cast(&value, ty, wanted),
                    None => {
                        let (pointer, align) = (pointer(self, *place, *offset)?, param.scalar.bytes());
                        self.value(format_args!("load {}, ptr {pointer}, align {align}", wanted.text()))
                    }
                },
                (argument, None) => self.read(argument, wanted).ok_or_else(|| refuse("an argument of another type"))?,
            };
            passed.push(format!("{} {value}", wanted.text()));
        }
        let result = passing::result_type(signature, op.line)?;
        let ty = passing::function_type(signature, op.line)?;
        let text = format!("call {ty} {target}({}) #3", passed.join(", "));
        let (Some(place), Some(returns)) = (returned.first(), signature.returns.first()) else {
            self.line(text);
            return Ok(());
        };
        let value = self.value(text);
        match place {
            Resolved::Address(place, offset) => {
                let pointer = pointer(self, *place, *offset)?;
                self.line(format_args!("store {result} {value}, ptr {pointer}, align {}", returns.alignment()));
            }
            other if returns.bytes.is_none() => {
                self.write_to(other, passing::passed(returns), &value, returns.scalar.is_signed())
                    .ok_or_else(|| refuse("a result without a place"))?;
            }
            _ => return Err(refuse("an aggregate result that is not in memory")),
        }
        Ok(())
    }
}
