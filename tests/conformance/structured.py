"""Structured outputs beside a real tokens-only engine with random weights, which breaks a grammar at nearly every token.

    structured.py COUPLET_URL [REPLIES CALLS PARSED]

100 replies to ten schemas, 50 calls that must come, and 20 replies that the SDK reads into classes, or so many as are given:
all must be valid.
"""

import concurrent.futures
import json
import sys

import jsonschema
import openai
import pydantic

MODEL = "tiny-qwen3"
WORKERS = 4


def record(required=None, **properties):
    required = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


INTEGER = {"type": "integer", "minimum": 0, "maximum": 150}
SCHEMAS = [
    record(a={"type": "integer"}),
    record(name={"type": "string", "maxLength": 12}, age=INTEGER),
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 4},
    record(p=record(x={"type": "number"}, y={"type": "boolean"})),
    {"enum": ["yes", "no", 3, None]},
    record(d={"type": "string", "format": "date"}),
    record(c={"type": "string", "pattern": "^[A-Z]{3}[0-9]{2}$"}),
    {"anyOf": [record(k={"const": "i"}, v=INTEGER), record(k={"const": "s"}, v={"type": "string", "maxLength": 8})]},
    {"$defs": {"n": record(v={"type": "boolean"})}} | record(l={"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3}),
    record(t={"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 2, "maxItems": 2}, z={"type": "null"}),
]
TOOLS = {
    "weather": record(city={"enum": ["Paris", "Rome"]}, days=INTEGER),
    "add": record(a=INTEGER, b={"type": "boolean"}),
}


class Step(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    done: bool
    count: int


class Plan(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    first: Step
    rest: list[Step] = pydantic.Field(max_length=2)


def options(at):
    return {
        "model": MODEL, "messages": [{"role": "user", "content": f"Case {at}"}], "max_tokens": 1500,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": False}, "top_k": -1}, "top_p": 1.0, "temperature": 1.0,
    }


def reply(client, at):
    schema = SCHEMAS[at % len(SCHEMAS)]
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    choice = client.chat.completions.create(response_format=shape, **options(at)).choices[0]
    jsonschema.validate(json.loads(choice.message.content), schema)
    assert choice.finish_reason == "stop", choice.finish_reason


def call(client, at):
    tools = [{"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
             for name, schema in TOOLS.items()]
    wanted = [None, "weather", None, "add"][at % 4]
    forced = {"type": "function", "function": {"name": wanted}} if wanted else "required"
    message = client.chat.completions.create(
        tools=tools, tool_choice=forced, parallel_tool_calls=False, **options(at)).choices[0].message
    (made,) = message.tool_calls
    assert wanted in (None, made.function.name), made
    jsonschema.validate(json.loads(made.function.arguments), TOOLS[made.function.name])


def parsed(client, at):
    kind = [Step, Plan][at % 2]
    message = client.chat.completions.parse(response_format=kind, **options(at)).choices[0].message
    assert isinstance(message.parsed, kind), message


def main():
    client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", timeout=300, max_retries=0)
    counts = [int(count) for count in sys.argv[2:]] or [100, 50, 20]
    failed = False
    for name, check, count in zip(["replies", "calls", "parsed"], [reply, call, parsed], counts, strict=True):
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            futures = [pool.submit(check, client, at) for at in range(count)]
            errors = [(at, future.exception()) for at, future in enumerate(futures) if future.exception()]
        for at, error in errors[:5]:
            print(f"FAIL {name} {at}: {str(error)[:300]}")
        print(f"structured {name}: {count - len(errors)} of {count}")
        failed |= bool(errors)
    sys.exit(failed)


main()
