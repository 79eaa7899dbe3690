//! A served model, loaded once and immutable: configs, tokenizer, chat template, vocabulary for decoding.

pub mod vocabulary;
