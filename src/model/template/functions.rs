//! The environment that transformers gives to chat templates: its filters, functions and Python's methods.

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value, filters};

use super::source;
use super::text;
use super::time::LocalTime;
use super::value::is_printed_float;

/// Steps of one rendering. A step is an instruction, or 64 bytes of text that is made.
const FUEL: u64 = 4_000_000;
/// Deepest nesting of macro calls.
const MAX_RECURSION: usize = 200;

/// An environment without templates.
pub(super) fn environment(syntax: minijinja::syntax::SyntaxConfig) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_syntax(syntax);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(MAX_RECURSION);
    env.set_formatter(|out, _, value| {
        match value.as_str() {
            Some(text) => out.write_str(text),
            None => out.write_str(&text::str(value)?),
        }
        .map_err(Error::from)
    });
    env.set_unknown_method_callback(method);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: &Value| text::str(value));
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    make_lazy(&mut env, "map", Value::from_function(filters::map));
    make_lazy(&mut env, "select", Value::from_function(filters::select));
    make_lazy(&mut env, "reject", Value::from_function(filters::reject));
    make_lazy(&mut env, "selectattr", Value::from_function(filters::selectattr));
    make_lazy(&mut env, "rejectattr", Value::from_function(filters::rejectattr));
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text::str(message)?))
    });
    env.add_filter(source::ITERATED, |value: Value| -> Result<Value, Error> {
        if value.is_none() {
            return Err(Error::new(ErrorKind::InvalidOperation, "'NoneType' object is not iterable"));
        }
        Ok(value)
    });
    env.add_test("number", |value: &Value| {
        value.is_number() || value.kind() == ValueKind::Bool || is_printed_float(value)
    });
    env.add_test("float", |value: &Value| value.is_number() && !value.is_integer() || is_printed_float(value));
    env.remove_global("debug");
    env.add_test("iterable", |value: &Value| !value.is_none() && (value.is_undefined() || value.try_iter().is_ok()));
    env
}

/// Wraps a filter so that what it returns is a generator, as in Python: iterable, but not JSON.
fn make_lazy(env: &mut Environment<'static>, name: &'static str, filter: Value) {
    env.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
        let list = filter.call(state, &args.into_values())?;
        let items: Vec<Value> = list.try_iter()?.collect();
        Ok(Value::from_object(Generator { items }))
    });
}

/// What Python's lazy filters return.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) items: Vec<Value>,
}

impl Object for Generator {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &std::sync::Arc<Self>) -> minijinja::value::Enumerator {
        // A filter hides the length, which a generator does not have.
        let mut items = self.items.clone().into_iter();
        minijinja::value::Enumerator::Iter(Box::new(std::iter::from_fn(move || items.next())))
    }

    fn is_true(self: &std::sync::Arc<Self>) -> bool {
        true
    }
}

/// `strftime_now` for one moment.
pub(super) fn strftime_now(now: LocalTime) -> Value {
    Value::from_function(move |format: &str| now.strftime(format))
}

/// transformers' `tojson`: `json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
fn tojson(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (positional, kwargs): (&[Value], Kwargs) = from_args(&args)?;
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let given: Option<Value> = kwargs.get(name)?;
        Ok(given.or_else(|| positional.get(index).cloned()).filter(|value| !value.is_none()))
    };
    let ascii = argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent = argument(1, "indent")?.map(|value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(value.as_usize().unwrap_or(0).min(64)),
    });
    let separators: Option<Vec<String>> = match argument(2, "separators")? {
        Some(pair) => Some(pair.try_iter()?.map(|part| text::str(&part)).collect::<Result<_, _>>()?),
        None => None,
    };
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    let default_item = if indent.is_some() { "," } else { ", " };
    let part = |index: usize, default: &str| {
        separators.as_ref().and_then(|parts| parts.get(index)).cloned().unwrap_or_else(|| default.to_owned())
    };
    let json =
        text::Json { ascii, indent, item_separator: part(0, default_item), key_separator: part(1, ": "), sort_keys };
    let mut out = String::new();
    json.write(value, 0, &mut out)?;
    Ok(Value::from(out))
}

/// Jinja's `join`: items as Python prints them, or one attribute of each.
fn join(state: &State, value: &Value, separator: Option<&Value>, kwargs: Kwargs) -> Result<String, Error> {
    let attribute: Option<String> = kwargs.get("attribute")?;
    let separator = match kwargs.get::<Option<Value>>("d")? {
        Some(given) => text::str(&given)?,
        None => separator.map(text::str).transpose()?.unwrap_or_default(),
    };
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        if i > 0 {
            text::push(&mut out, &separator)?;
        }
        let item = match &attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        text::push(&mut out, &text::str(&item)?)?;
    }
    Ok(out)
}

/// Jinja's `indent(width=4, first=False, blank=False)`: a newline at the end stays.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    const MAX_WIDTH: usize = 1000;
    let flag =
        |given: Option<bool>, name: &str| -> Result<bool, Error> { Ok(given.or(kwargs.get(name)?).unwrap_or(false)) };
    let (first, blank) = (flag(first, "first")?, flag(blank, "blank")?);
    let width = width.or(kwargs.get("width")?);
    kwargs.assert_all_used()?;
    let indention = match &width {
        Some(width) if width.as_str().is_some() => text::str(width)?,
        Some(width) => " ".repeat(width.as_usize().unwrap_or(0).min(MAX_WIDTH)),
        None => "    ".to_owned(),
    };
    let text = text::str(value)?.replace("\r\n", "\n");
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut out = if first { indention.clone() } else { String::new() };
    for (i, line) in text.split(is_end).enumerate() {
        if i > 0 {
            out.push('\n');
            if blank || !line.is_empty() {
                text::push(&mut out, &indention)?;
            }
        }
        text::push(&mut out, line)?;
    }
    Ok(out)
}

/// Python's methods, those of the compatibility library first replaced where they differ.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = string_method(state, text, name, args)?
    {
        return Ok(result);
    }
    if value.kind() == ValueKind::Seq
        && let Some(result) = list_method(state, value, name, args)?
    {
        return Ok(result);
    }
    if value.kind() == ValueKind::Map && name == "copy" {
        return Ok(value.clone());
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

fn string_method(state: &State, own: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(own.strip_prefix(prefix).unwrap_or(own))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(own.strip_suffix(suffix).unwrap_or(own))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let split = if name == "partition" { own.split_once(separator) } else { own.rsplit_once(separator) };
            let parts = match (split, name) {
                (Some((before, after)), _) => [before, separator, after],
                (None, "partition") => [own, "", ""],
                (None, _) => ["", "", own],
            };
            Value::from(minijinja::value::Tuple::from(parts.map(Value::from).to_vec()))
        }
        "rsplit" => {
            let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
            let Some(separator) = separator else { return Ok(None) };
            let mut parts: Vec<&str> = match limit.and_then(|limit| usize::try_from(limit).ok()) {
                Some(limit) => own.rsplitn(limit.saturating_add(1), separator).collect(),
                None => own.rsplit(separator).collect(),
            };
            parts.reverse();
            Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            Value::from(pad(own, width, '0', Side::Right))
        }
        "ljust" | "rjust" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let fill = fill.and_then(|fill| fill.chars().next()).unwrap_or(' ');
            Value::from(pad(own, width, fill, if name == "ljust" { Side::Left } else { Side::Right }))
        }
        "casefold" => Value::from(own.to_lowercase()),
        "swapcase" => Value::from(
            own.chars()
                .flat_map(|c| {
                    if c.is_uppercase() { c.to_lowercase().collect::<Vec<_>>() } else { c.to_uppercase().collect() }
                })
                .collect::<String>(),
        ),
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            match own.find(part) {
                Some(at) => Value::from(own.get(..at).unwrap_or_default().chars().count()),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
            }
        }
        "join" => {
            let (items,): (Value,) = from_args(args)?;
            let mut out = String::new();
            for (i, item) in items.try_iter()?.enumerate() {
                state.consume_fuel(1)?;
                let Some(part) = item.as_str() else {
                    let message = "sequence item: expected str instance";
                    return Err(Error::new(ErrorKind::InvalidOperation, message));
                };
                text::push(&mut out, if i > 0 { own } else { "" })?;
                text::push(&mut out, part)?;
            }
            Value::from(out)
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// Where a text stands in its width.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

fn pad(text: &str, width: usize, fill: char, side: Side) -> String {
    const MAX_WIDTH: usize = 10_000;
    let missing = width.min(MAX_WIDTH).saturating_sub(text.chars().count());
    let padding: String = std::iter::repeat_n(fill, missing).collect();
    if side == Side::Left { format!("{text}{padding}") } else { format!("{padding}{text}") }
}

fn list_method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match name {
        "index" => {
            let (wanted,): (Value,) = from_args(args)?;
            for (at, item) in value.try_iter()?.enumerate() {
                state.consume_fuel(1)?;
                if item == wanted {
                    return Ok(Some(Value::from(at)));
                }
            }
            Err(Error::new(ErrorKind::InvalidOperation, "value is not in list"))
        }
        "copy" => Ok(Some(value.clone())),
        _ => Ok(None),
    }
}
