//! Stop strings, matched in the text as it grows.
//!
//! A tokens-only engine refuses stop strings, so they are matched here, one byte at a time, by an automaton per string
//! (Knuth, Morris, Pratt). Text is held back while it is the beginning of a stop string, and never longer; only a
//! marker token waits until all of it is free. The match that is complete first wins, the earlier in the list where two
//! end together, as in vLLM. Works over token and chunk borders.

use serde::{Deserialize, Serialize};

use super::pieces::Pieces;

/// The stop strings of a request, compiled. Immutable.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    patterns: Vec<Pattern>,
    /// `include_stop_str_in_output`: the match stays in the text, so nothing is ever held back.
    include: bool,
}

#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    /// `border[i]`: length of the longest proper border of the first `i + 1` bytes.
    border: Vec<u32>,
}

/// How far each stop string is matched, and the text that is held back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Bytes matched, a number per stop string.
    matched: Vec<u32>,
    /// Held pieces, oldest first.
    held: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    id: Option<u32>,
    text: String,
    /// A marker token: passed on whole or not at all.
    marker: bool,
}

/// The text that one token added.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The token.
    pub id: u32,
    /// Its text.
    pub text: &'a str,
    /// True for added tokens, which parsers know by id.
    pub marker: bool,
}

impl StopStrings {
    /// Compiles the strings in the order of the request; empty ones can never match and are left out.
    pub fn new(strings: impl IntoIterator<Item = String>, include: bool) -> Self {
        let patterns = strings.into_iter().filter(|text| !text.is_empty()).map(Pattern::new).collect();
        Self { patterns, include }
    }

    /// True where there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The state before any text.
    pub fn start(&self) -> State {
        State { matched: vec![0; self.patterns.len()], held: Vec::new() }
    }

    /// Whether a state that came from outside can belong to these strings.
    pub fn accepts(&self, state: &State) -> bool {
        let text: String = state.held.iter().map(|held| held.text.as_str()).collect();
        let held = text.len();
        // What an automaton has matched is the end of the text: only then do cuts fall between characters.
        let fits = |(matched, pattern): (&u32, &Pattern)| {
            let begun =
                pattern.text.as_bytes().get(..*matched as usize).filter(|begun| begun.len() < pattern.text.len());
            begun.is_some_and(|begun| self.include || text.as_bytes().ends_with(begun))
        };
        let marker: usize = state.held.first().map_or(0, |held| held.text.len());
        let hold = if self.include { 0 } else { state.longest() };
        state.matched.len() == self.patterns.len()
            && state.matched.iter().zip(&self.patterns).all(fits)
            && (hold..=hold + marker).contains(&held)
    }

    /// Adds a token's text; what no stop string can claim any more goes to `free`. Without `armed` (the first
    /// `min_tokens` tokens) a complete match is passed over. Returns the stop string that is complete, if any: then the
    /// text ends there.
    pub fn push(&self, state: &mut State, piece: Piece<'_>, armed: bool, free: &mut Pieces) -> Option<&str> {
        let found = self.scan(state, piece.text, armed);
        let hold = if self.include { 0 } else { state.longest() };
        if found.is_none() && hold == 0 && state.held.is_empty() {
            free.push(Some(piece.id), piece.text);
            return None;
        }
        let before: usize = state.held.iter().map(|held| held.text.len()).sum();
        state.held.push(Held { id: Some(piece.id), text: piece.text.to_owned(), marker: piece.marker });
        match found {
            Some((pattern, end)) => {
                let end = before + end;
                state.cut(if self.include { end } else { end - pattern.len() }, free);
                state.matched.fill(0);
                Some(pattern)
            }
            None => {
                state.release(before + piece.text.len() - hold, free);
                None
            }
        }
    }

    /// The end of the text: what was held back was no stop string after all.
    pub fn flush(&self, state: &mut State, free: &mut Pieces) {
        state.release(usize::MAX, free);
        state.matched.fill(0);
    }

    /// Advances the automata; returns the string that is complete first and the bytes of `text` up to its end.
    fn scan(&self, state: &mut State, text: &str, armed: bool) -> Option<(&str, usize)> {
        for (at, byte) in text.bytes().enumerate() {
            let mut found = None;
            for (pattern, matched) in self.patterns.iter().zip(&mut state.matched) {
                *matched = pattern.advance(*matched, byte);
                if *matched as usize == pattern.text.len() {
                    *matched = pattern.border[pattern.border.len() - 1];
                    if armed && found.is_none() {
                        found = Some((pattern.text.as_str(), at + 1));
                    }
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

impl State {
    /// Bytes at the end of the text that may be the start of a stop string.
    fn longest(&self) -> usize {
        self.matched.iter().max().map_or(0, |len| *len as usize)
    }

    /// Frees the first `count` bytes of the held text, but a marker only as a whole.
    fn release(&mut self, mut count: usize, free: &mut Pieces) {
        let mut whole = 0;
        for held in &mut self.held {
            if held.text.len() > count {
                if !held.marker && count > 0 {
                    let (left, right) = held.text.split_at(count);
                    free.push(held.id.take(), left);
                    held.text = right.to_owned();
                }
                break;
            }
            free.push(held.id, &held.text);
            count -= held.text.len();
            whole += 1;
        }
        self.held.drain(..whole);
    }

    /// Frees the first `count` bytes and drops the rest: the text ends there.
    fn cut(&mut self, mut count: usize, free: &mut Pieces) {
        for held in self.held.drain(..) {
            let (left, _) = held.text.split_at(count.min(held.text.len()));
            // What is left of a marker is text; the token itself was not generated in full.
            let id = if held.marker && left.len() < held.text.len() { None } else { held.id };
            free.push(id, left);
            count -= left.len();
        }
    }
}

impl Pattern {
    fn new(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut border = vec![0_u32; bytes.len()];
        for at in 1..bytes.len() {
            let mut len = border[at - 1] as usize;
            while len > 0 && bytes[len] != bytes[at] {
                len = border[len - 1] as usize;
            }
            border[at] = (len + usize::from(bytes[len] == bytes[at])) as u32;
        }
        Self { text, border }
    }

    /// Bytes matched after one more byte.
    fn advance(&self, matched: u32, byte: u8) -> u32 {
        let bytes = self.text.as_bytes();
        let mut len = matched as usize;
        while len > 0 && bytes[len] != byte {
            len = self.border[len - 1] as usize;
        }
        (len + usize::from(bytes[len] == byte)) as u32
    }
}
