"""What a program sees that uses the `openai` package against couplet. Run by run.sh; asserts, prints one line per check.

    sdk.py BASE_URL     couplet with the tiny model, hermes and qwen3 parsers, and a simulated engine behind it
"""
import json
import sys

import httpx
import openai

BASE = sys.argv[1].rstrip("/")
MODEL = "tiny"
client = openai.OpenAI(base_url=BASE + "/v1", api_key="none", max_retries=0, timeout=30)
HI = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Looks up the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
THINKING = "<think>\nThe user wants the forecast.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def says(text):
    """Makes the simulated engine say this text."""
    answer = httpx.post(BASE + "/tokenize", json={"model": MODEL, "prompt": text, "add_special_tokens": False})
    return {"vllm_xargs": {"script": answer.raise_for_status().json()["tokens"]}}


def chat(text, **kwargs):
    kwargs = {"model": MODEL, "messages": HI, "extra_body": says(text), **kwargs}
    return client.chat.completions.create(**kwargs)


def fold(stream):
    """A stream as the whole answer that it is."""
    out = {"reasoning": "", "content": "", "calls": {}, "finish": None, "usage": None, "roles": []}
    for chunk in stream:
        out["usage"] = chunk.usage or out["usage"]
        for choice in chunk.choices:
            out["finish"] = choice.finish_reason or out["finish"]
            delta = choice.delta
            out["roles"] += [delta.role] if delta.role else []
            out["content"] += delta.content or ""
            out["reasoning"] += getattr(delta, "reasoning", None) or ""
            for call in delta.tool_calls or []:
                entry = out["calls"].setdefault(call.index, {"id": None, "name": "", "arguments": ""})
                entry["id"] = call.id or entry["id"]
                entry["name"] += call.function.name or ""
                entry["arguments"] += call.function.arguments or ""
    return out


@check
def models_list():
    assert [model.id for model in client.models.list().data] == [MODEL]


@check
def chat_whole():
    answer = chat(THINKING + "It is sunny.")
    message = answer.choices[0].message
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert message.role == "assistant" and message.content.strip() == "It is sunny.", message
    assert message.reasoning.strip() == "The user wants the forecast.", message
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@check
def chat_stream():
    out = fold(chat(THINKING + "It is sunny.", stream=True, stream_options={"include_usage": True}))
    assert out["roles"] == ["assistant"] and out["content"].strip() == "It is sunny.", out
    assert out["reasoning"].strip() == "The user wants the forecast.", out
    assert out["finish"] == "stop" and out["usage"].completion_tokens > 0, out


@check
def chat_without_a_script_is_an_echo():
    answer = client.chat.completions.create(
        model=MODEL, messages=HI, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    assert answer.choices[0].message.content == HI[0]["content"], answer.choices[0].message


@check
def tool_call_whole():
    answer = chat(THINKING + CALL, tools=TOOLS)
    (call,) = answer.choices[0].message.tool_calls
    assert call.type == "function" and call.id and call.function.name == "get_weather", call
    assert json.loads(call.function.arguments) == {"city": "Paris"}, call
    assert answer.choices[0].finish_reason == "tool_calls"


@check
def tool_call_stream_and_its_result():
    out = fold(chat(THINKING + CALL + "\n" + CALL, tools=TOOLS, stream=True))
    calls = list(out["calls"].values())
    assert [call["name"] for call in calls] == ["get_weather"] * 2 and out["finish"] == "tool_calls", out
    assert [json.loads(call["arguments"]) for call in calls] == [{"city": "Paris"}] * 2, out
    assert calls[0]["id"] != calls[1]["id"]
    turns = HI + [
        {"role": "assistant", "tool_calls": [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls]},
        *({"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in calls)]
    answer = chat(THINKING + "Sunny twice.", messages=turns, tools=TOOLS)
    assert answer.choices[0].message.content.strip() == "Sunny twice."


@check
def stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=HI, tools=TOOLS, extra_body=says(THINKING + CALL)) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds, kinds
    assert final.choices[0].message.tool_calls[0].function.arguments == '{"city": "Paris"}'


@check
def several_choices_logprobs_and_stop():
    answer = chat(THINKING + "one two three", n=2, temperature=1, logprobs=True, top_logprobs=2, stop=" three")
    assert [choice.message.content.strip() for choice in answer.choices] == ["one two"] * 2, answer.choices
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)


@check
def completions():
    answer = client.completions.create(model=MODEL, prompt="Once", max_tokens=64, extra_body=says(" upon a time"))
    assert answer.choices[0].text == " upon a time" and answer.object == "text_completion", answer
    stream = client.completions.create(model=MODEL, prompt="Once", stream=True, extra_body=says(" upon a time"), max_tokens=64)
    assert "".join(chunk.choices[0].text for chunk in stream) == " upon a time"


def fails(kind, status, function, **facts):
    try:
        function()
    except kind as error:
        assert type(error) is kind and error.status_code == status, repr(error)
        for name, value in facts.items():
            assert getattr(error, name) == value, (name, getattr(error, name), repr(error))
    else:
        raise AssertionError(f"no {kind.__name__}")


@check
def errors_have_their_classes():
    bad = openai.BadRequestError
    fails(openai.NotFoundError, 404, lambda: chat("x", model="nope"), param="model", type="NotFoundError")
    fails(openai.NotFoundError, 404, lambda: fold(chat("x", model="nope", stream=True)), param="model")
    fails(openai.NotFoundError, 404, lambda: client.models.retrieve(MODEL))
    fails(openai.NotFoundError, 404, lambda: client.embeddings.create(model=MODEL, input="x"))
    fails(bad, 400, lambda: chat("x", temperature=-1), param="temperature", type="BadRequestError")
    fails(bad, 400, lambda: chat("x", messages="x"), param="body.messages", type="Bad Request")
    fails(bad, 400, lambda: chat("x", max_tokens=100_000), param="max_tokens")
    fails(bad, 400, lambda: chat("x", messages=[{"role": "user", "content": "hello " * 9000}]), param="input_tokens")
    fails(bad, 400, lambda: chat("x", tool_choice="required"), param="tool_choice")
    fails(bad, 400, lambda: client.completions.create(model=MODEL, prompt=""), param="prompt")


@check
def errors_of_the_engine_arrive():
    """Whatever the proxy makes of a dying engine, the program gets an exception of the SDK, and soon."""
    script = says("one two three four")["vllm_xargs"]
    dies = {"vllm_xargs": {**script, "die_after_tokens": 2}, "chat_template_kwargs": {"enable_thinking": False}}
    seen = []
    try:
        for chunk in client.chat.completions.create(model=MODEL, messages=HI, stream=True, extra_body=dies):
            seen += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    except openai.APIError as error:
        assert "".join(seen).startswith("one"), (seen, error)
    else:
        raise AssertionError("a stream that broke looked complete")
    refuses = {"vllm_xargs": {"fail_status": 500}}
    fails(openai.InternalServerError, 500, lambda: chat("x", extra_body=refuses))


def main():
    failed = 0
    for function in CHECKS:
        try:
            function()
            print(f"ok   {function.__name__}")
        except Exception as error:  # report every check, then fail
            failed += 1
            print(f"FAIL {function.__name__}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


main()
