//! Reads request bodies the way vLLM's pydantic models do in lax mode.
//!
//! In: a JSON value. Out: typed requests, or the 400 that vLLM answers: `Bad Request` with `param: "body.x"` where a
//! field has the wrong type, `BadRequestError` where one of vLLM's own checks fails. A request type is one `body!`
//! block that lists its fields; how a type is read, and how its errors are worded, is told once here.

use serde_json::{Map, Number, Value};

use super::error::ApiError;
use super::json_error;
use super::python;

/// Longest string of a rejected value that an error repeats, in characters.
const MAX_QUOTED: usize = 200;
/// Most problems that one error lists.
const MAX_LISTED: usize = 10;

/// One thing that is wrong with a body.
#[derive(Debug, Clone)]
struct Issue {
    kind: &'static str,
    loc: String,
    msg: String,
    input: String,
    ctx: Option<String>,
}

/// Where reading stands, and what was found wrong so far.
#[derive(Debug, Clone)]
pub struct Place {
    loc: String,
    issues: Vec<Issue>,
    raised: Option<ApiError>,
}

impl Place {
    /// Begins at `loc`, which is `body` for a whole request.
    pub fn new(loc: &str) -> Self {
        Self { loc: loc.to_owned(), issues: Vec::new(), raised: None }
    }

    /// Runs `read` one level deeper.
    pub fn at<T>(&mut self, segment: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let end = self.loc.len();
        self.loc.push('.');
        self.loc.push_str(segment);
        let out = read(self);
        self.loc.truncate(end);
        out
    }

    /// Notes a problem with the value here. Always returns `None`, the answer of a failed read.
    pub fn issue<T>(&mut self, kind: &'static str, msg: impl Into<String>, input: &Value) -> Option<T> {
        self.note(kind, msg.into(), quoted(input), None)
    }

    /// As [`issue`](Self::issue), with pydantic's context (the text of a Python dict).
    pub fn issue_with<T>(&mut self, kind: &'static str, msg: String, input: &Value, ctx: String) -> Option<T> {
        self.note(kind, msg, quoted(input), Some(ctx))
    }

    fn note<T>(&mut self, kind: &'static str, msg: String, input: String, ctx: Option<String>) -> Option<T> {
        self.issues.push(Issue { kind, loc: self.loc.clone(), msg, input, ctx });
        None
    }

    /// Fails with one of vLLM's own checks, which win over every [`issue`](Self::issue).
    pub fn raise<T>(&mut self, error: ApiError) -> Option<T> {
        self.raised.get_or_insert(error);
        None
    }

    /// Opens an object whose fields are read one by one.
    pub fn object(&mut self, value: Value) -> Option<Fields> {
        match value {
            Value::Object(map) => Some(Fields { len: map.len(), map }),
            other => self.issue(
                "model_attributes_type",
                "Input should be a valid dictionary or object to extract fields from",
                &other,
            ),
        }
    }

    /// Reads `value` as a list and each of its items with `read`.
    pub fn list<T>(&mut self, value: Value, mut read: impl FnMut(Value, &mut Self) -> Option<T>) -> Option<Vec<T>> {
        let Value::Array(items) = value else {
            return self.issue("list_type", "Input should be a valid list", &value);
        };
        let mut out = Vec::with_capacity(items.len());
        let mut complete = true;
        for (i, item) in items.into_iter().enumerate() {
            match self.at(itoa::Buffer::new().format(i), |place| read(item, place)) {
                Some(item) => out.push(item),
                None => complete = false,
            }
        }
        complete.then_some(out)
    }

    /// Tries alternatives in order on copies; where all fail, all their problems are kept.
    pub fn any_of<T>(&mut self, value: &Value, alternatives: &[fn(Value, &mut Self) -> Option<T>]) -> Option<T> {
        let before = self.issues.len();
        for read in alternatives {
            if let Some(out) = read(value.clone(), self) {
                self.issues.truncate(before);
                return Some(out);
            }
        }
        None
    }

    /// Ends reading: the value, or the error a client gets.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, ApiError> {
        if let Some(raised) = self.raised {
            return Err(raised);
        }
        match read {
            Some(value) if self.issues.is_empty() => Ok(value),
            _ => Err(self.into_error()),
        }
    }

    fn into_error(self) -> ApiError {
        let count = self.issues.len();
        let label = if count == 1 { "error" } else { "errors" };
        let mut message = format!("{count} validation {label}:");
        for issue in self.issues.iter().take(MAX_LISTED) {
            message.push_str("\n  ");
            message.push_str(&issue.text());
        }
        if count > MAX_LISTED {
            message.push_str(&format!("\n  ...and {} more {label}", count - MAX_LISTED));
        }
        ApiError::invalid_body(self.issues.first().map(|issue| issue.loc.as_str()), message)
    }
}

impl Issue {
    fn text(&self) -> String {
        let (loc, msg, input) =
            (python::str_repr(&self.loc), python::str_repr(&self.msg), python::str_repr(&self.input));
        let ctx = self.ctx.as_ref().map(|ctx| format!(", 'ctx': {ctx}")).unwrap_or_default();
        format!("{{'type': '{}', 'loc': {loc}, 'msg': {msg}, 'input': {input}{ctx}}}", self.kind)
    }
}

/// What an error repeats of a rejected value: short text, or the size of a container.
fn quoted(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("<list of {} items>", items.len()),
        Value::Object(map) => format!("<dict of {} items>", map.len()),
        other => {
            let text = python::str(other);
            match text.char_indices().nth(MAX_QUOTED) {
                Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "...[truncated]",
                None => text,
            }
        }
    }
}

/// The fields of one object, taken out by name without copying.
#[derive(Debug)]
pub struct Fields {
    map: Map<String, Value>,
    len: usize,
}

impl Fields {
    /// The object's own map, for checks before its fields are read.
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// As [`map`](Self::map), for the few checks that rewrite what the client sent.
    pub fn map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.map
    }

    /// Reads a field; `default` stands in where the key is absent, and without one it is required.
    pub fn field<T: Read>(&mut self, place: &mut Place, key: &str, default: Option<T>) -> Option<T> {
        let found = match self.map.len() {
            ..=FEW => self.map.iter_mut().find(|(known, _)| *known == key).map(|(_, value)| value),
            _ => self.map.get_mut(key),
        };
        let Some(value) = found.map(Value::take) else {
            if default.is_some() {
                return default;
            }
            let input = format!("<dict of {} items>", self.len);
            return place.at(key, |place| place.note("missing", "Field required".to_owned(), input, None));
        };
        place.at(key, |place| T::read(value, place))
    }
}

/// Keys that are found faster one by one than by a hash.
const FEW: usize = 8;

/// The value of a key.
pub fn look_up<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    match map.len() {
        ..=FEW => map.iter().find(|(known, _)| *known == key).map(|(_, value)| value),
        _ => map.get(key),
    }
}

/// A type that can be read from JSON.
pub trait Read: Sized {
    /// The value, or `None` after noting in `place` what is wrong.
    fn read(value: Value, place: &mut Place) -> Option<Self>;
}

/// The key that a field's name stands for: names that are words of Rust begin with `r#`.
pub(crate) const fn key_of(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Declares a request type: fields in vLLM's order, each with its key (where it differs from the name), type and
/// default. A field without a default is required. Unknown keys are ignored, as vLLM does.
macro_rules! body {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $field:ident : $kind:ty $(= $default:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        impl $name {
            fn read_fields(
                mut fields: $crate::api::validate::Fields,
                place: &mut $crate::api::validate::Place,
            ) -> Option<Self> {
                $(let $field = {
                    const KEY: &str = $crate::api::validate::key_of(stringify!($field));
                    fields.field::<$kind>(place, KEY, body!(@default $($default)?))
                };)*
                Some(Self { $($field: $field?,)* })
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}
pub(crate) use body;

impl Read for Value {
    fn read(value: Value, _: &mut Place) -> Option<Self> {
        Some(value)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::read(value, place).map(Some) }
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        place.list(value, T::read)
    }
}

/// A key that may be absent, but not null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Absent<T>(pub Option<T>);

impl<T: Read> Read for Absent<T> {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        T::read(value, place).map(|value| Self(Some(value)))
    }
}

impl Read for String {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match value {
            Value::String(text) => Some(text),
            other => place.issue("string_type", "Input should be a valid string", &other),
        }
    }
}

impl Read for Map<String, Value> {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match value {
            Value::Object(map) => Some(map),
            other => place.issue("dict_type", "Input should be a valid dictionary", &other),
        }
    }
}

impl Read for bool {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let read = match &value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => match number.as_f64() {
                Some(0.0) => Some(false),
                Some(1.0) => Some(true),
                _ => None,
            },
            Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
                "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
                _ => None,
            },
            other => return place.issue("bool_type", "Input should be a valid boolean", other),
        };
        match read {
            Some(flag) => Some(flag),
            None => place.issue("bool_parsing", "Input should be a valid boolean, unable to interpret input", &value),
        }
    }
}

impl Read for i128 {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match &value {
            Value::Bool(flag) => Some(i128::from(*flag)),
            Value::Number(number) => match integer(number) {
                Some(integer) => Some(integer),
                None => place.issue(
                    "int_from_float",
                    "Input should be a valid integer, got a number with a fractional part",
                    &value,
                ),
            },
            Value::String(text) => match integer_in_text(text) {
                Some(integer) => Some(integer),
                None => place.issue(
                    "int_parsing",
                    "Input should be a valid integer, unable to parse string as an integer",
                    &value,
                ),
            },
            other => place.issue("int_type", "Input should be a valid integer", other),
        }
    }
}

/// Integers beyond 64 bits end at the bounds: no field of a request has a use for them.
impl Read for i64 {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        i128::read(value, place).map(saturate)
    }
}

/// An integer between two bounds, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within<const LOW: i64, const HIGH: i64>(pub i64);

impl<const LOW: i64, const HIGH: i64> Read for Within<LOW, HIGH> {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let integer = i128::read(value.clone(), place)?;
        if integer < i128::from(LOW) {
            let msg = format!("Input should be greater than or equal to {LOW}");
            return place.issue_with("greater_than_equal", msg, &value, format!("{{'ge': {LOW}}}"));
        }
        if integer > i128::from(HIGH) {
            let msg = format!("Input should be less than or equal to {HIGH}");
            return place.issue_with("less_than_equal", msg, &value, format!("{{'le': {HIGH}}}"));
        }
        Some(Self(saturate(integer)))
    }
}

impl Read for f64 {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match &value {
            Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
            Value::Number(number) => Some(float(number)),
            Value::String(text) => match text.trim().replace('_', "").parse() {
                Ok(float) => Some(float),
                Err(_) => place.issue(
                    "float_parsing",
                    "Input should be a valid number, unable to parse string as a number",
                    &value,
                ),
            },
            other => place.issue("float_type", "Input should be a valid number", other),
        }
    }
}

/// A JSON number as a float; beyond the range it is infinite, as in Python.
pub fn float(number: &Number) -> f64 {
    number.as_str().parse().unwrap_or(f64::NAN)
}

/// A JSON number as an integer, if it is one (`3`, `3.0`), ended at the bounds of the type.
pub fn integer(number: &Number) -> Option<i128> {
    let text = number.as_str();
    if !python::is_float(text) {
        let bound = if text.starts_with('-') { i128::MIN } else { i128::MAX };
        return Some(text.parse().unwrap_or(bound));
    }
    let float = float(number);
    #[expect(clippy::cast_possible_truncation, reason = "a whole float; `as` ends at the bounds")]
    (float.is_finite() && float.fract() == 0.0).then_some(float as i128)
}

fn integer_in_text(text: &str) -> Option<i128> {
    let text = text.trim();
    let digits = text.strip_suffix(".0").unwrap_or(text).replace('_', "");
    digits.strip_prefix('+').unwrap_or(&digits).parse().ok()
}

fn saturate(integer: i128) -> i64 {
    i64::try_from(integer).unwrap_or(if integer < 0 { i64::MIN } else { i64::MAX })
}

/// Notes that `value` is none of the texts that are allowed here.
pub fn not_literal<T>(place: &mut Place, value: &Value, allowed: &[&str]) -> Option<T> {
    let quoted: Vec<String> = allowed.iter().map(|text| python::str_repr(text)).collect();
    let expected = match quoted.as_slice() {
        [head @ .., last] if !head.is_empty() => format!("{} or {last}", head.join(", ")),
        _ => quoted.join(""),
    };
    let ctx = format!("{{'expected': {}}}", python::str_repr(&expected));
    place.issue_with("literal_error", format!("Input should be {expected}"), value, ctx)
}

/// Parses a body: bytes to JSON, with the error that vLLM's server gives for what is not JSON.
pub fn parse_json(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        let mut place = Place::new("body");
        let nothing = place.issue::<Value>("missing", "Field required", &Value::Null);
        return place.finish(nothing);
    }
    match serde_json::from_slice(body) {
        Ok(value) => Ok(value),
        Err(error) => Err(not_json(body, &error)),
    }
}

fn not_json(body: &[u8], error: &serde_json::Error) -> ApiError {
    let Ok(text) = std::str::from_utf8(body) else {
        return ApiError::detail(400, "There was an error parsing the body");
    };
    let (position, reason) = json_error::locate(text).unwrap_or_else(|| {
        // Python reads it and we do not: half a surrogate pair, NaN, nesting beyond the limit.
        (error.column().saturating_sub(1), error.to_string())
    });
    let mut place = Place::new("body");
    place.at(itoa::Buffer::new().format(position), |place| {
        let ctx = format!("{{'error': {}}}", python::str_repr(&reason));
        place.issue_with::<()>("json_invalid", "JSON decode error".to_owned(), &Value::Object(Map::new()), ctx)
    });
    place.into_error()
}

/// True for the content types that vLLM reads as JSON.
pub fn is_json_type(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The 400 for a body that is not sent as `application/json`.
pub fn unsupported_media_type() -> ApiError {
    ApiError::invalid_body(None, "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed")
}

/// One of vLLM's own checks about a parameter: `message (parameter=…)`.
pub fn bad_param(param: &str, message: &str) -> ApiError {
    ApiError::bad_param(param, format!("{message} (parameter={param})"))
}

/// As [`bad_param`], naming the value too: `message (parameter=…, value=…)`.
pub fn bad_value(param: &str, value: &str, message: &str) -> ApiError {
    ApiError::bad_param(param, format!("{message} (parameter={param}, value={value})"))
}

/// What Python's `if value:` sees.
pub fn is_truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => float(number) != 0.0,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
    }
}
