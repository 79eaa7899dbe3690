//! Where, and for what reason, Python's `json` refuses a text. The position is part of vLLM's error (`param: "body.17"`).
//!
//! Runs only after a body was refused, so it may be slow; it keeps no values.

/// Deepest nesting that is looked at; deeper texts are left to the other parser's error.
const MAX_DEPTH: usize = 512;

/// The first error as (character index, Python's reason), or `None` where Python finds none.
pub(super) fn locate(text: &str) -> Option<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut scan = Scan { chars: &chars, at: 0 };
    scan.document().err().flatten()
}

type Failure = Option<(usize, String)>;

struct Scan<'a> {
    chars: &'a [char],
    at: usize,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), Failure> {
        if self.peek() == Some('\u{feff}') {
            return fail(0, "Unexpected UTF-8 BOM (decode using utf-8-sig)");
        }
        self.space();
        self.value(0)?;
        self.space();
        if self.at < self.chars.len() { fail(self.at, "Extra data") } else { Ok(()) }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(None);
        }
        match self.peek() {
            Some('"') => self.string(),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            _ => self.atom(),
        }
    }

    fn atom(&mut self) -> Result<(), Failure> {
        for word in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
            if word.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c)) {
                self.at += word.len();
                return Ok(());
            }
        }
        let start = self.at;
        let mut at = self.at + usize::from(self.peek() == Some('-'));
        let digits = |at: &mut usize| {
            let from = *at;
            while self.chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            *at > from
        };
        if self.chars.get(at) == Some(&'0') {
            at += 1;
        } else if !digits(&mut at) {
            return fail(start, "Expecting value");
        }
        let mut fraction = at + 1;
        if self.chars.get(at) == Some(&'.') && digits(&mut fraction) {
            at = fraction;
        }
        if matches!(self.chars.get(at), Some('e' | 'E')) {
            let mut exponent = at + 1 + usize::from(matches!(self.chars.get(at + 1), Some('+' | '-')));
            if digits(&mut exponent) {
                at = exponent;
            }
        }
        self.at = at;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Failure> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return fail(start, "Unterminated string starting at"),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => self.escape(start)?,
                Some(c) if (c as u32) < 0x20 => return fail(self.at, "Invalid control character at"),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self, start: usize) -> Result<(), Failure> {
        match self.chars.get(self.at + 1) {
            None => fail(start, "Unterminated string starting at"),
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                self.at += 2;
                Ok(())
            }
            Some('u') => {
                let hex = (2..6).all(|i| self.chars.get(self.at + i).is_some_and(char::is_ascii_hexdigit));
                if !hex {
                    return fail(self.at + 1, "Invalid \\uXXXX escape");
                }
                self.at += 6;
                Ok(())
            }
            Some(_) => fail(self.at, "Invalid \\escape"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Failure> {
        self.at += 1;
        self.space();
        if self.peek() == Some('}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some('"') {
                return fail(self.at, "Expecting property name enclosed in double quotes");
            }
            self.string()?;
            self.space();
            if self.peek() != Some(':') {
                return fail(self.at, "Expecting ':' delimiter");
            }
            self.at += 1;
            self.space();
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(',') => {
                    self.at += 1;
                    self.space();
                }
                _ => return fail(self.at, "Expecting ',' delimiter"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Failure> {
        self.at += 1;
        self.space();
        if self.peek() == Some(']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some(']') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(',') => {
                    self.at += 1;
                    self.space();
                }
                _ => return fail(self.at, "Expecting ',' delimiter"),
            }
        }
    }
}

fn fail(at: usize, reason: &str) -> Result<(), Failure> {
    Err(Some((at, reason.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::locate;

    #[test]
    fn positions_are_pythons() {
        for (text, at, reason) in [
            ("{not json", 1, "Expecting property name enclosed in double quotes"),
            ("{\"a\": }", 6, "Expecting value"),
            ("{\"a\": 1", 7, "Expecting ',' delimiter"),
            ("{\"a\" 1}", 5, "Expecting ':' delimiter"),
            ("[1,]", 3, "Expecting value"),
            ("{\"a\":1,}", 7, "Expecting property name enclosed in double quotes"),
            ("\"abc", 0, "Unterminated string starting at"),
            ("\"a\\x\"", 2, "Invalid \\escape"),
            ("\"a\\u12\"", 3, "Invalid \\uXXXX escape"),
            ("\"a\nb\"", 2, "Invalid control character at"),
            ("1 2", 2, "Extra data"),
            ("   ", 3, "Expecting value"),
            ("01", 1, "Extra data"),
        ] {
            assert_eq!(locate(text), Some((at, reason.to_owned())), "{text}");
        }
        assert_eq!(locate("[NaN, \"\\ud800\"]"), None);
    }
}
