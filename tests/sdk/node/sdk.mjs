// What a program sees that uses the `openai` package for Node against couplet. Run by ../run.sh; asserts.
//
//     sdk.mjs BASE_URL     as for ../sdk.py
import assert from "node:assert/strict";
import OpenAI, { BadRequestError, NotFoundError } from "openai";

const base = process.argv[2];
const model = "tiny";
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const tools = [{ type: "function", function: {
  name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];

/** Makes the simulated engine say this text. */
async function says(text) {
  const answer = await fetch(`${base}/tokenize`, {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: text, add_special_tokens: false }) });
  return { vllm_xargs: { script: (await answer.json()).tokens } };
}

assert.deepEqual((await client.models.list()).data.map((entry) => entry.id), [model]);
console.log("ok   node: models");

const thinking = "<think>\nThe user wants the forecast.\n</think>\n\n";
const stream = await client.chat.completions.create({
  model, messages, tools, stream: true,
  ...(await says(thinking + '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')) });
let [reasoning, name, args, finish] = ["", "", "", null];
for await (const chunk of stream) {
  const [choice] = chunk.choices;
  reasoning += choice?.delta.reasoning ?? "";
  for (const call of choice?.delta.tool_calls ?? []) {
    name += call.function.name ?? "";
    args += call.function.arguments ?? "";
  }
  finish = choice?.finish_reason ?? finish;
}
assert.equal(reasoning.trim(), "The user wants the forecast.");
assert.deepEqual([name, JSON.parse(args), finish], ["get_weather", { city: "Paris" }, "tool_calls"]);
console.log("ok   node: chat stream with reasoning and a tool call");

const whole = await client.chat.completions.create({ model, messages, ...(await says(thinking + "It is sunny.")) });
assert.equal(whole.choices[0].message.content.trim(), "It is sunny.");
console.log("ok   node: chat");

await assert.rejects(client.chat.completions.create({ model: "nope", messages }), NotFoundError);
await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }), BadRequestError);
console.log("ok   node: error classes");
