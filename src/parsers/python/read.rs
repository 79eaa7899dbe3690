//! `json.loads`: strict JSON, but for `NaN` and `Infinity`, and numbers of any size.

use super::Json;

/// Python gives up on deeper nesting, too.
const MAX_DEPTH: usize = 512;

/// Digits that Python converts to an integer at most.
const MAX_DIGITS: usize = 4300;

/// Reads exactly one value, with white space around it.
pub(in crate::parsers) fn loads(text: &str) -> Option<Json> {
    let mut reader = Reader { rest: text, depth: 0 };
    reader.space();
    let value = reader.value()?;
    reader.space();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<Json> {
        match self.peek()? {
            '"' => self.string().map(Json::Str),
            '{' => self.nested(Self::dict),
            '[' => self.nested(Self::list),
            _ => self.word().or_else(|| self.number()),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<Json>) -> Option<Json> {
        self.depth += 1;
        let value = if self.depth > MAX_DEPTH { None } else { read(self) };
        self.depth -= 1;
        value
    }

    fn dict(&mut self) -> Option<Json> {
        self.eat('{')?;
        let mut members: Vec<(String, Json)> = Vec::new();
        self.space();
        if self.eat('}').is_some() {
            return Some(Json::Dict(members));
        }
        loop {
            let key = self.string()?;
            self.space();
            self.eat(':')?;
            self.space();
            let value = self.value()?;
            match members.iter_mut().find(|(name, _)| *name == key) {
                Some(member) => member.1 = value,
                None => members.push((key, value)),
            }
            self.space();
            if self.eat('}').is_some() {
                return Some(Json::Dict(members));
            }
            self.eat(',')?;
            self.space();
        }
    }

    fn list(&mut self) -> Option<Json> {
        self.eat('[')?;
        let mut items = Vec::new();
        self.space();
        if self.eat(']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.eat(']').is_some() {
                return Some(Json::List(items));
            }
            self.eat(',')?;
            self.space();
        }
    }

    fn string(&mut self) -> Option<String> {
        self.eat('"')?;
        let mut out = String::new();
        loop {
            let end = self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            let (plain, rest) = self.rest.split_at_checked(end)?;
            out.push_str(plain);
            self.rest = rest;
            match self.next()? {
                '"' => return Some(out),
                '\\' => out.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            '"' => '"',
            '\\' => '\\',
            '/' => '/',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return None,
        })
    }

    /// `\uXXXX`, and a second one where both are a pair. A lone surrogate has no character: U+FFFD stands for it.
    fn unicode(&mut self) -> Option<char> {
        let high = self.hex()?;
        if let Some(char) = char::from_u32(high) {
            return Some(char);
        }
        let before = self.rest;
        if (0xD800..0xDC00).contains(&high) && self.rest.starts_with("\\u") {
            self.next();
            self.next();
            match self.hex() {
                Some(low) if (0xDC00..0xE000).contains(&low) => {
                    return char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
                }
                _ => self.rest = before,
            }
        }
        Some(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = rest;
        u32::from_str_radix(digits, 16).ok()
    }

    fn word(&mut self) -> Option<Json> {
        let words = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
            ("NaN", Json::Float(f64::NAN)),
            ("Infinity", Json::Float(f64::INFINITY)),
            ("-Infinity", Json::Float(f64::NEG_INFINITY)),
        ];
        words.into_iter().find_map(|(word, value)| {
            self.rest = self.rest.strip_prefix(word)?;
            Some(value)
        })
    }

    fn number(&mut self) -> Option<Json> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(self.rest.starts_with('-'));
        let int = self.rest.get(sign..).map_or(0, digits);
        let int = if self.rest.get(sign..)?.starts_with('0') { 1 } else { int };
        if int == 0 {
            return None;
        }
        let mut end = sign + int;
        let mut float = false;
        if self.rest.get(end..)?.starts_with('.') {
            let fraction = self.rest.get(end + 1..).map_or(0, digits);
            if fraction > 0 {
                end += 1 + fraction;
                float = true;
            }
        }
        if self.rest.get(end..)?.starts_with(['e', 'E']) {
            let signed = usize::from(self.rest.get(end + 1..)?.starts_with(['+', '-']));
            let exponent = self.rest.get(end + 1 + signed..).map_or(0, digits);
            if exponent > 0 {
                end += 1 + signed + exponent;
                float = true;
            }
        }
        let (text, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        if float {
            return text.parse().ok().map(Json::Float);
        }
        (int <= MAX_DIGITS).then(|| Json::Int(if text == "-0" { "0" } else { text }.to_owned()))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next()?;
        self.rest = chars.as_str();
        Some(char)
    }

    fn eat(&mut self, wanted: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }
}

/// White space between tokens of JSON.
fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::python::dumps;

    fn rewritten(text: &str) -> Option<String> {
        loads(text).map(|value| dumps(&value))
    }

    #[test]
    fn reads_and_writes_back() {
        let text = r#"{"a":[1,-0,2.50,1E3,true,null],"b":"\u00e9\ud83c\udf89\n","a2":{}}"#;
        assert_eq!(rewritten(text).unwrap(), r#"{"a": [1, 0, 2.5, 1000.0, true, null], "b": "é🎉\n", "a2": {}}"#);
    }

    #[test]
    fn a_repeated_key_keeps_its_place() {
        assert_eq!(rewritten(r#"{"a":1,"b":2,"a":3}"#).unwrap(), r#"{"a": 3, "b": 2}"#);
    }

    #[test]
    fn refuses_what_python_refuses() {
        for text in ["", "{", "[1,]", "{'a':1}", "{\"a\":1} x", "01", "1.", "\"\n\"", "\"\\x\"", "+1"] {
            assert_eq!(loads(text), None, "{text:?}");
        }
        assert_eq!(loads(&"[".repeat(100_000)), None);
    }
}
