//! What grows with a reply in vLLM's `stream_state`: all of its tokens, and how many of them came with each chunk.
//!
//! Only a replay reads the numbers. Otherwise they come and go as the text they are, which costs next to nothing, where
//! reading and writing them again with every token would make a long reply cost its length squared.

use serde_json::Deserializer;

use crate::api::ids::token_ids;

/// `output_token_ids` and `output_chunk_lens`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History<'a> {
    ids: Numbers<'a>,
    lens: Numbers<'a>,
}

impl<'a> History<'a> {
    /// From the JSON texts of the two lists, or the lists themselves where there is no text.
    pub fn new(texts: [Option<&'a [u8]>; 2], ids: &[u32], lens: &[usize]) -> Self {
        let [ids_text, lens_text] = texts.map(|text| text.map(Numbers::carried));
        Self {
            ids: ids_text.unwrap_or_else(|| Numbers::listed(ids.iter().map(|id| u64::from(*id)))),
            lens: lens_text.unwrap_or_else(|| Numbers::listed(lens.iter().map(|len| *len as u64))),
        }
    }

    /// A chunk came.
    pub fn push(&mut self, chunk: &[u32]) {
        chunk.iter().for_each(|id| self.ids.push(u64::from(*id)));
        self.lens.push(chunk.len() as u64);
    }

    /// True where no token is listed.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.lens.is_empty()
    }

    /// How many tokens are listed.
    pub fn tokens(&self) -> usize {
        self.ids.count()
    }

    /// The JSON of the two lists without their brackets, each in two parts.
    pub fn texts(&self) -> [[&[u8]; 2]; 2] {
        [&self.ids, &self.lens].map(|list| [list.carried, list.added.as_slice()])
    }

    /// What tells at a glance whether the lists are those that were checked before, however their JSON is spaced: no proof
    /// against a client that wants to fool itself.
    pub fn sum(&self) -> u64 {
        self.ids.sum.wrapping_add(self.lens.sum.rotate_left(32))
    }

    /// The numbers: all tokens, and the length of each chunk. An error says what is wrong with them, in vLLM's words.
    pub fn read(&self) -> Result<(Vec<u32>, Vec<usize>), String> {
        let ids = token_ids(&mut Deserializer::from_slice(&self.ids.json()));
        let ids = ids.map_err(|error| format!("output_token_ids: {error}"))?;
        let lens: Vec<usize> =
            serde_json::from_slice(&self.lens.json()).map_err(|error| format!("output_chunk_lens: {error}"))?;
        if lens.contains(&0) {
            return Err("output_chunk_lens entries should be greater than 0".to_owned());
        }
        let sum = lens.iter().try_fold(0_usize, |sum, len| sum.checked_add(*len));
        if sum == Some(ids.len()) {
            return Ok((ids, lens));
        }
        Err(format!(
            "output_chunk_lens must sum to len(output_token_ids) (got sum={}, len(output_token_ids)={})",
            sum.map_or_else(|| "more than memory holds".to_owned(), |sum| sum.to_string()),
            ids.len()
        ))
    }
}

/// A list of numbers as text, without brackets, that grows at its end.
#[derive(Debug, Clone, Default, PartialEq)]
struct Numbers<'a> {
    carried: &'a [u8],
    added: Vec<u8>,
    /// What its visible characters add up to.
    sum: u64,
}

impl<'a> Numbers<'a> {
    fn carried(list: &'a [u8]) -> Self {
        let inside = list.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        let carried = inside.unwrap_or(list).trim_ascii();
        Self { carried, added: Vec::new(), sum: visible(carried) }
    }

    fn listed(numbers: impl Iterator<Item = u64>) -> Self {
        let mut list = Self::default();
        numbers.for_each(|number| list.push(number));
        list
    }

    fn push(&mut self, number: u64) {
        let first = self.is_empty();
        let from = self.added.len();
        if !first {
            self.added.push(b',');
        }
        self.added.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.sum += visible(self.added.get(from..).unwrap_or_default());
    }

    fn is_empty(&self) -> bool {
        self.carried.is_empty() && self.added.is_empty()
    }

    fn json(&self) -> Vec<u8> {
        [b"[", self.carried, &self.added, b"]"].concat()
    }

    fn count(&self) -> usize {
        let commas = |part: &[u8]| add_up(part, |byte| u8::from(byte == b','));
        let commas = commas(self.carried) + commas(&self.added);
        if self.is_empty() { 0 } else { usize::try_from(commas).unwrap_or(usize::MAX).saturating_add(1) }
    }
}

fn visible(text: &[u8]) -> u64 {
    add_up(text, |byte| if byte > b' ' { byte } else { 0 })
}

/// Adds up what each byte counts. Small sums of short stretches let many bytes be looked at together.
fn add_up(text: &[u8], counts: impl Fn(u8) -> u8) -> u64 {
    let stretch = |bytes: &[u8]| u64::from(bytes.iter().map(|byte| u16::from(counts(*byte))).sum::<u16>());
    text.chunks(256).map(stretch).sum()
}
