//! Options that set fields of the configuration, made from the table of fields.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use mneme_model::configuration::{Changes, Configuration, Effect, FIELDS, Field, Kind};
use mneme_system::arguments::ValueError;
use mneme_system::exit;
use serde_json::{Map, Value, json};

use crate::error::Fatal;

const AXES: [&str; 3] = ["x", "y", "z"];

/// The fields that a command line sets.
#[derive(Clone, Debug, Default)]
pub struct FieldOptions {
    changes: Map<String, Value>,
    /// `--llvm all`: every version with an installed builder, one after the other.
    pub all_llvms: bool,
}

impl FieldOptions {
    /// The recorded configuration with these fields, and `further` ones that the command line sets in another way.
    ///
    /// # Errors
    /// A value that the field cannot have.
    pub fn configuration(
        &self,
        further: impl IntoIterator<Item = (&'static str, Value)>,
        recorded: &Configuration,
    ) -> Result<Configuration, Fatal> {
        let further = further.into_iter().map(|(name, value)| (name.to_owned(), value));
        let changes = Changes(self.changes.clone().into_iter().chain(further).collect());
        changes.apply(recorded).map_err(|error| Fatal::new(exit::BAD_USAGE, error.to_string()))
    }

    /// Whether the command line sets this field.
    pub fn sets(&self, name: &str) -> bool {
        self.changes.contains_key(name)
    }

    /// The version of `--llvm`.
    pub fn llvm(&self) -> Option<u32> {
        self.changes.get("llvm").and_then(Value::as_u64).and_then(|version| version.try_into().ok())
    }
}

/// The fields with an option from the table.
fn fields() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| !field.is_elsewhere)
}

/// The names that users may write with one dash.
pub fn with_one_dash() -> impl Iterator<Item = String> {
    FIELDS.iter().filter(|field| !field.short.is_empty()).flat_map(|field| match field.kind {
        Kind::Dimensions => AXES.map(|axis| format!("{}{axis}", field.short)).into(),
        _ => vec![field.short.to_owned()],
    })
}

/// A name for clap, which keeps static texts only. A process declares its command line once.
fn name(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

/// Suggests the option for one axis, of which clap would name any: `--block-dim-x` for `--block`.
pub fn suggest_axis(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return };
    let typed = typed.trim_start_matches('-');
    let is_meant = |field: &&Field| field.kind == Kind::Dimensions && typed.starts_with(field.name);
    if let Some(field) = fields().find(is_meant).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let axis = AXES.into_iter().find(|axis| typed.ends_with(axis)).unwrap_or("x");
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{}-{axis}", field.option())));
    }
}

/// The identifier of the option for one axis.
fn axis_id(field: &Field, axis: &str) -> &'static str {
    name(format!("{}.{axis}", field.name))
}

fn option(field: &'static Field) -> Arg {
    let mut help = field.comment.replace('`', "");
    if field.kind == Kind::Version {
        help += "; all compares all installed versions";
    }
    if !field.short.is_empty() {
        help += &format!(", also -{}", field.short);
    }
    match (field.default, (field.initial)()) {
        ("", Value::String(word)) if !matches!(field.kind, Kind::Switch(_)) => help += &format!(" [default: {word}]"),
        ("", _) => {}
        (default, _) => help += &format!(" [default: {default}]"),
    }
    let option = Arg::new(field.name).long(name(field.option())).help(help);
    let option = match field.effect {
        Effect::Preparation | Effect::Compilation => option.help_heading("Compilation"),
        _ => option,
    };
    let names = [field.short, field.alias].into_iter().filter(|name| !name.is_empty());
    let option = option.aliases(names);
    let kind = field.kind;
    let read =
        move |text: &str| kind.read(text).ok_or_else(|| ValueError::from(format!("it must be {}", kind.values())));
    match kind {
        Kind::Bool | Kind::Switch(_) => option.action(ArgAction::SetTrue),
        Kind::Choice(words) => {
            option.value_name(field.unit).value_parser(PossibleValuesParser::new(words).map(Value::from))
        }
        Kind::Arguments => {
            let option = option.value_name(field.unit).num_args(0..=1).require_equals(true);
            option.default_missing_value("all").value_parser(read)
        }
        Kind::List => {
            let option = option.value_name(field.unit).action(ArgAction::Append).allow_hyphen_values(true);
            option.value_parser(read)
        }
        _ => option.value_name(field.unit).value_parser(read),
    }
}

/// The options of a field. Of the two for `true` and `false`, help shows the one that changes the default.
fn options(field: &'static Field) -> Vec<Arg> {
    match field.kind {
        Kind::Dimensions => AXES
            .map(|axis| {
                let help =
                    format!("{} along {axis}, also -{}{axis} [default: {}]", field.unit, field.short, field.default);
                let option = Arg::new(axis_id(field, axis)).long(name(format!("{}-{axis}", field.option()))).help(help);
                let others = [field.short.to_owned(), format!("{}.", field.name), format!("{}Dim.", field.name)];
                let option = option.aliases(others.map(|other| name(other + axis))).value_name("N");
                let kind = field.kind;
                option.value_parser(move |text: &str| {
                    kind.read(text).ok_or(ValueError::from("it must be a whole number"))
                })
            })
            .into(),
        Kind::Bool | Kind::Arguments => {
            let is_on = (field.initial)() == true;
            let no = name(format!("no-{}", field.option()));
            let help = format!("Do not {}", lowercase(&field.comment.replace('`', "")));
            let off = Arg::new(no).long(no).help(help).action(ArgAction::SetTrue).overrides_with(field.name);
            let on = option(field).overrides_with(no);
            let heading = on.get_help_heading().map(name);
            vec![on.hide(is_on), off.hide(!is_on).help_heading(heading)]
        }
        _ => vec![option(field)],
    }
}

fn lowercase(text: &str) -> String {
    text[..1].to_lowercase() + &text[1..]
}

/// The value that the options give a field.
fn value(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let one = |id: &str| matches.get_one::<Value>(id).cloned();
    match field.kind {
        Kind::Dimensions => {
            let axes =
                AXES.iter().filter_map(|axis| Some(((*axis).to_owned(), one(&format!("{}.{axis}", field.name))?)));
            let axes: Map<String, Value> = axes.collect();
            (!axes.is_empty()).then_some(Value::Object(axes))
        }
        Kind::Bool => {
            let [on, off] = [field.name.to_owned(), format!("no-{}", field.option())].map(|id| matches.get_flag(&id));
            (on || off).then_some(Value::Bool(on))
        }
        Kind::Arguments if matches.get_flag(&format!("no-{}", field.option())) => Some(Value::Bool(false)),
        Kind::Switch([_, word]) => matches.get_flag(field.name).then(|| word.into()),
        Kind::List => {
            let words = matches.get_many::<Value>(field.name)?;
            Some(words.filter(|word| **word != "").cloned().collect())
        }
        _ => one(field.name),
    }
}

impl Args for FieldOptions {
    fn augment_args(command: Command) -> Command {
        command.args(fields().flat_map(options))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FieldOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let set = |field: &Field| Some((field.name.to_owned(), value(field, matches)?));
        let mut changes: Map<String, Value> = fields().filter_map(set).collect();
        let all_llvms = changes.get("llvm") == Some(&json!("all"));
        changes.retain(|name, _| name != "llvm" || !all_llvms);
        Ok(Self { changes, all_llvms })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use mneme_model::configuration::{CODEGEN_METHODS, CacheState, Configuration, Specialize};
    use mneme_model::launch::Dim3;
    use mneme_model::tolerance::{DataType, Norm, Threshold, Tolerance};
    use proptest::collection::{btree_set, vec};
    use proptest::option::of;
    use proptest::prelude::*;

    use crate::cli::{Arguments, OneShot};

    /// Any value of any field, as JSON with one entry for each.
    fn value(field: &'static super::Field) -> BoxedStrategy<serde_json::Value> {
        use super::{Kind, json};
        let level = || prop_oneof![Just(json!(null)), (0..4u8).prop_map(|level| json!(level))];
        let word = |word: &'static str| vec(word, 0..3).prop_map(|words| json!(words));
        match (field.name, field.kind) {
            ("passes", _) => prop_oneof!["default<O[0-3]>", "function\\(sroa,[a-z]{1,5}\\)", Just(String::new())]
                .prop_map(|passes| json!(passes))
                .boxed(),
            ("codegen_opt", _) => (0..4u8).prop_map(|level| json!(level)).boxed(),
            (_, Kind::Dimensions) => [1..9u32, 1..9, 1..5].prop_map(|dim| json!(Dim3::from(dim))).boxed(),
            (_, Kind::Bool) => any::<bool>().prop_map(|it| json!(it)).boxed(),
            (_, Kind::Number(least, most)) => {
                let numbers = (least..=most).prop_map(|number| json!(number));
                match (field.initial)().is_null() {
                    true => prop_oneof![Just(json!(null)), numbers].boxed(),
                    false => numbers.boxed(),
                }
            }
            (_, Kind::Level) => level().boxed(),
            (_, Kind::Version) => of(10..99u32).prop_map(|version| json!(version)).boxed(),
            (_, Kind::Seconds) => {
                of(1..8000u32).prop_map(|eighths| json!(eighths.map(|it| f64::from(it) / 8.0))).boxed()
            }
            (_, Kind::Text) => "[a-z]{1,5}".prop_map(|text| json!(text)).boxed(),
            (_, Kind::Choice(words)) => prop::sample::select(words.to_vec()).prop_map(|word| json!(word)).boxed(),
            (_, Kind::Switch(words)) => prop::sample::select(words.to_vec()).prop_map(|word| json!(word)).boxed(),
            (_, Kind::List) if (field.initial)().is_null() => {
                prop_oneof![Just(json!(null)), word("-[a-z=, ]{1,6}")].boxed()
            }
            (_, Kind::List) => word("-[a-z=, ]{1,6}").boxed(),
            (_, Kind::Arguments) => prop_oneof![
                any::<bool>().prop_map(|all| json!(all)),
                btree_set(0..9u32, 0..3).prop_map(|indices| json!(indices))
            ]
            .boxed(),
            (_, Kind::Tolerance) => {
                let rule = |(dtype, threshold, kind, norm)| {
                    json!(Tolerance {
                        dtype: DataType::ALL[dtype],
                        threshold,
                        kind: Threshold::ALL[kind],
                        norm: Norm::ALL[norm],
                        ignore: false
                    })
                };
                of((0..11usize, 0.0..0.5f64, 0..3usize, 0..4usize).prop_map(rule)).prop_map(|it| json!(it)).boxed()
            }
        }
    }

    fn configurations() -> BoxedStrategy<Configuration> {
        let fields: Vec<_> = super::FIELDS
            .iter()
            .map(|field| {
                (prop_oneof![3 => Just(Some((field.initial)())), 1 => value(field).prop_map(Some)], Just(field))
            })
            .collect();
        let read = |fields: Vec<(Option<serde_json::Value>, &'static super::Field)>| {
            let object: super::Map<_, _> =
                fields.into_iter().filter_map(|(value, field)| Some((field.name.to_owned(), value?))).collect();
            serde_json::from_value::<Configuration>(object.into()).unwrap()
        };
        fields.prop_map(read).boxed()
    }

    fn parsed(words: &[String]) -> OneShot {
        let line = ["mneme-replay", "-rdb", "a"].map(String::from).into_iter().chain(words.iter().cloned());
        match Arguments::read(line.map(OsString::from)).unwrap_or_else(|error| panic!("{words:?}: {error}")) {
            Arguments::OneShot(one_shot) => *one_shot,
            other => panic!("{words:?} is not {other:?}"),
        }
    }

    /// What a command line replays, with the session's values of what the configuration leaves to it.
    fn settled(it: Configuration, session: &OneShot) -> Configuration {
        let tolerances = &session.common.verification.options().tolerances;
        Configuration {
            iterations: it.iterations.or(Some(session.runs.iterations)),
            warmup: it.warmup.or(Some(session.runs.warmup)),
            timeout_s: it.timeout_s.or(Some(session.common.timeout.as_secs_f64())),
            tolerance: it.tolerance.or(tolerances.first().map(|option| option.tolerance)),
            ..it.grounded()
        }
    }

    proptest! {
        #[test]
        fn a_printed_configuration_is_read_back(
            it in configurations(), recorded in configurations(), is_known in any::<bool>(),
        ) {
            let of_recording = Configuration {
                passes: recorded.passes,
                codegen_opt: recorded.codegen_opt,
                ..Configuration::recorded(recorded.grid, recorded.block, recorded.shared_mem)
            };
            let it = if it.original { it.of_original() } else { it };
            let words = it.options(is_known.then_some(&of_recording));
            let session = parsed(&words);
            let read = session.configuration(&of_recording).unwrap();
            let usual = parsed(&[]);
            prop_assert_eq!(settled(read, &session), settled(it, &usual), "{:?}", words);
        }
    }

    #[test]
    fn the_last_of_two_opposites_counts() {
        let recorded = Configuration::default();
        let all = ["--specialize", "--specialize-dims", "-slb"].map(String::from);
        let none = ["--no-specialize", "--no-specialize-dims", "--no-set-launch-bounds"].map(String::from);
        for (words, is_on) in [([&all[..], &none].concat(), false), ([&none[..], &all].concat(), true)] {
            let read = parsed(&words).configuration(&recorded).unwrap();
            let found = [read.specialize == Specialize::All, read.specialize_dims, read.set_launch_bounds];
            assert_eq!(found, [is_on; 3], "{words:?}");
        }
    }

    #[test]
    fn levels_have_the_names_that_recorders_know() {
        for (text, level) in [("critical", "error"), ("warn", "warn"), ("warning", "warn"), ("info", "info")] {
            let read = parsed(&["-v".into(), "debug".into(), "-v".into(), text.into()]).common.level;
            assert_eq!(read, level.parse::<tracing::Level>().unwrap(), "{text}");
        }
    }

    #[test]
    fn defaults_are_not_printed() {
        let recorded = Configuration::recorded(Dim3::new(10, 2, 1), Dim3::new(32, 4, 1), 16);
        assert_eq!(recorded.options(Some(&recorded)), [""; 0]);
        let changed = Configuration {
            block: Dim3::new(64, 4, 1),
            specialize: Specialize::Arguments(vec![0, 2]),
            cache: CacheState::Cold,
            prune: false,
            codegen_method: CODEGEN_METHODS[2].into(),
            passes: "default<O1>".into(),
            ..recorded.clone()
        };
        let expected =
            ["-bidx", "64", "--specialize=0,2", "--codegen-method=rtc", "--no-prune", "--cold-cache", "default<O1>"];
        assert_eq!(changed.options(Some(&recorded)), expected);
    }
}
