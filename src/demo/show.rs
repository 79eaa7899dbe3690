//! What the demo prints.

#![expect(clippy::print_stdout, reason = "printing is what the demo is for")]

use super::chat::Answer;
use super::model;

const COLUMN: usize = 34;

pub(super) fn welcome(base: &str, engine: &str) {
    println!("couplet demo");
    println!("  OpenAI API (text)      {base}/v1");
    println!("  simulated engine (ids) {engine}/inference/v1/generate\n");
}

pub(super) fn question(text: &str) {
    println!("The client asks, with one tool at hand: {text:?}");
}

pub(super) fn prompt(tokens: usize) {
    println!("couplet renders {tokens} token ids; the engine answers with ids, one event at a time:\n");
    println!("  {:COLUMN$}  what the client gets", "what the engine says");
    println!("  {:-<COLUMN$}  {:-<COLUMN$}", "", "");
}

/// One event: its tokens, and the text that they became. Marks become nothing; text is held while it may be one.
pub(super) fn event(tokens: &[(u64, String)], said: &[(&'static str, String)]) {
    let tokens: Vec<_> = tokens.iter().map(|(id, text)| format!("{id} {text:?}")).collect();
    let said: Vec<_> = said.iter().map(|(kind, text)| format!("{kind:9} {text:?}")).collect();
    println!("  {:COLUMN$}  {}", tokens.join(" "), said.join("  "));
}

pub(super) fn answer(answer: &Answer) {
    println!("\nAll of it:");
    println!("  reasoning      {:?}", answer.reasoning);
    println!("  content        {:?}", answer.content);
    for (name, arguments) in &answer.calls {
        println!("  tool call      {name}({arguments})");
    }
    println!("  finish_reason  {}", answer.finish_reason);
    println!("  usage          {}", answer.usage);
}

pub(super) fn try_it(base: &str) {
    let name = model::NAME;
    println!(
        r#"
Your turn. The engine has no model behind it: it echoes your message.

  curl {base}/v1/chat/completions -H 'content-type: application/json' -d '{{
    "model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}], "stream": true,
    "chat_template_kwargs": {{"enable_thinking": false}}}}'

  # Python: pip install openai
  from openai import OpenAI
  client = OpenAI(base_url="{base}/v1", api_key="none")
  stream = client.chat.completions.create(model="{name}", messages=[{{"role": "user", "content": "Hello!"}}],
      stream=True, extra_body={{"chat_template_kwargs": {{"enable_thinking": False}}}})
  for chunk in stream: print(chunk.choices[0].delta.content or "", end="")

  // Node: npm install openai
  import OpenAI from "openai";
  const client = new OpenAI({{ baseURL: "{base}/v1", apiKey: "none" }});
  const answer = await client.chat.completions.create({{ model: "{name}", messages: [{{ role: "user", content: "Hello!" }}],
      chat_template_kwargs: {{ enable_thinking: false }} }});
  console.log(answer.choices[0].message.content);

Ctrl-C ends it."#
    );
}
