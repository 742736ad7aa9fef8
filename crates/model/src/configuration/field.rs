//! The description of a configuration's field, and the values that it can have.

use serde_json::{Value, json};

use super::{MAX_TIMEOUT, Specialize};

/// A field of a configuration: a row of [`FIELDS`](super::FIELDS).
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The field's comment: its effect in one sentence, for help and the reference page.
    pub comment: &'static str,
    pub kind: Kind,
    pub effect: Effect,
    /// The default as JSON; the recording's values replace those of the launch, `passes` and `codegen_opt`.
    pub initial: fn() -> Value,
    /// The default in words, if `initial` does not tell it.
    pub default: &'static str,
    /// The option's long name, if it is not `name` with dashes.
    pub long: &'static str,
    /// Another long name, which users may write with one dash; "" for none.
    pub short: &'static str,
    /// A long name that help does not show; "" for none.
    pub alias: &'static str,
    /// The unit, or what else stands for the value in help.
    pub unit: &'static str,
    /// Whether the command line of `mneme-replay` declares the option itself, because it is more than a field: an
    /// argument, a group of alternatives, or a default for all configurations.
    pub is_elsewhere: bool,
    /// Whether code is compiled from IR if this is not at its default, so PTX is lifted.
    pub needs_ir: bool,
    /// Whether it allows the compiler more than the source does, so it can be the reason for a wrong result.
    pub relaxes: bool,
    /// Whether equal PTX may become other machine code.
    pub reaches_assembler: bool,
    /// The version of Mneme that added it. Fields of 0.1 are those of the existing Mneme.
    pub since: &'static str,
}

/// The part of a replay that a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The launch.
    Launch,
    /// The IR before the passes. IR that came out of the passes has it already.
    Preparation,
    /// Passes, code generation and the assembler.
    Compilation,
    /// Whose code runs.
    Code,
    /// How the code is run and compared.
    Runs,
    /// How long it may take.
    Limit,
    /// It is only printed.
    Nothing,
}

impl Effect {
    /// Whether another value asks for other code.
    pub fn changes_code(self) -> bool {
        matches!(self, Self::Preparation | Self::Compilation | Self::Code)
    }
}

/// The type of a field, which decides how an option says its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Extents along x, y and z, with an option for each.
    Dimensions,
    /// `true` or `false`, with the options `--name` and `--no-name`.
    Bool,
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// An optimisation level, 0 to 3.
    Level,
    /// The version of a compiler; the option also takes `all`.
    Version,
    Seconds,
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words. The option has no value; it stands for the second word.
    Switch([&'static str; 2]),
    /// Options of a compiler, one an option.
    List,
    /// A [`Specialize`].
    Arguments,
    /// A [`Tolerance`](crate::tolerance::Tolerance).
    Tolerance,
}

impl Kind {
    /// The values in words, for errors and the reference page.
    pub fn values(self) -> String {
        match self {
            Self::Dimensions => "an object with x, y and z".into(),
            Self::Bool => "true or false".into(),
            Self::Number(_, u32::MAX) => "a whole number".into(),
            Self::Number(least, most) => format!("{least} to {most}"),
            Self::Level => "0 to 3".into(),
            Self::Version => "a version, as in 22".into(),
            Self::Seconds => format!("a number of seconds above 0, at most {MAX_TIMEOUT:e}"),
            Self::Text => "text".into(),
            Self::Choice(words) => words.join(", "),
            Self::Switch(words) => words.join(", "),
            Self::List => "a list of texts".into(),
            Self::Arguments => "false, true or a list of argument indices, counted from 0, as in 0,2".into(),
            Self::Tolerance => "an object with dtype, threshold, kind and norm".into(),
        }
    }

    /// Whether a value of the right type is in range. `null` is.
    pub(super) fn has(self, value: &Value) -> bool {
        let is_in = |least: u32, most: u32| value.as_u64().is_none_or(|it| (least.into()..=most.into()).contains(&it));
        match self {
            Self::Number(least, most) => is_in(least, most),
            Self::Level => is_in(0, 3),
            Self::Choice(words) => value.as_str().is_none_or(|word| words.contains(&word)),
            _ => true,
        }
    }

    /// Reads the value of an option: an extent of dimensions, and one entry of a list. `None` if it cannot be one.
    pub fn read(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Bool | Self::Switch(_) | Self::Tolerance => None,
            Self::Dimensions | Self::Number(..) | Self::Level => text.parse::<u32>().ok().map(Value::from),
            Self::Version if text == "all" => Some(text.into()),
            Self::Version => text.parse::<u32>().ok().map(Value::from),
            Self::Seconds => text.parse::<f64>().ok().map(Value::from),
            Self::Text | Self::Choice(_) | Self::List => Some(text.into()),
            Self::Arguments => text.parse::<Specialize>().ok().map(|read| json!(read)),
        };
        value.filter(|value| self.has(value))
    }
}

/// A field that is a value of one option, and changes nothing.
pub(super) const PLAIN: Field = Field {
    name: "",
    comment: "",
    kind: Kind::Bool,
    effect: Effect::Nothing,
    initial: || Value::Null,
    default: "",
    long: "",
    short: "",
    alias: "",
    unit: "N",
    is_elsewhere: false,
    needs_ir: false,
    relaxes: false,
    reaches_assembler: false,
    since: "0.2",
};
