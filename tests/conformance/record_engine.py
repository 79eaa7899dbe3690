#!/usr/bin/env python3
"""Record what a real vLLM engine answers on its generate route and around it.

    record_engine.py URL MODEL OUT_DIR {tokens_only,scale_out}

The engine must run the script processor of the end-to-end kit (it makes the model say `extra_args.script`) with a
maximum length of 4096 and Qwen3's vocabulary. Writes OUT_DIR/KIND.jsonl, one `{"case", "response"}` per line, which
tests/sim.rs holds the simulator against. Recorded with vLLM 0.32.0. Standard library only.

`{"repeat": [x, n]}` in a body stands for n times x.
"""
import http.client
import json
import sys
from urllib.parse import urlsplit

GENERATE = "/inference/v1/generate"
SCRIPT = [40, 41, 42, 43, 44]
USAGE = {"include_usage": True}
CONTINUOUS = {"include_usage": True, "continuous_usage_stats": True}
KEEP_HEADERS = ("content-type", "allow")


def script(ids=SCRIPT, **sampling):
    extra = {k: sampling.pop(k) for k in list(sampling) if k.startswith("script_")}
    return {"max_tokens": 16, "extra_args": {"script": ids, **extra}, **sampling}


def two(**sampling):
    return script(n=2, seed=7, temperature=1, script_seed=7, script_1=[50, 51], **sampling)


def repeat(n):
    return {"token_ids": {"repeat": [5, n]}}


# name, sampling parameters, other fields (None removes one)
GENERATIONS = [
    ("eos", script(), {}),
    ("second_eos", script([40], script_eos=151643), {}),
    ("stream_eos", script(), {"stream": True}),
    ("length", script(max_tokens=3), {}),
    ("stream_length", script(max_tokens=3), {"stream": True}),
    ("stop_strings", script(stop=["x"]), {}),
    ("string_script", script("40,41 42"), {}),
    ("empty_script", script([]), {}),
    ("script_from", script(script_from=2), {}),
    ("n2", two(), {}),
    ("stream_n2", two(), {"stream": True, "stream_options": USAGE}),
    ("stream_n2_continuous", two(), {"stream": True, "stream_options": CONTINUOUS}),
    ("stream_usage", script(), {"stream": True, "stream_options": USAGE}),
    ("stream_continuous", script(), {"stream": True, "stream_options": CONTINUOUS}),
    ("stream_continuous_alone", script([40]), {"stream": True, "stream_options": {"continuous_usage_stats": True}}),
    ("usage_without_stream", script([40]), {"stream_options": USAGE}),
    ("logprobs_0", script([40], logprobs=0), {}),
    ("logprobs_1", script([40], logprobs=1), {}),
    ("logprobs_2", script([40, 41], logprobs=2), {}),
    ("stream_logprobs_2", script([40, 41], logprobs=2), {"stream": True}),
    ("prompt_logprobs", script([40], prompt_logprobs=1), {}),
    ("stream_prompt_logprobs", script([40], prompt_logprobs=1), {"stream": True}),
    ("return_token_ids", script([40]), {"return_token_ids": True}),
    ("stream_return_token_ids", script([40]), {"stream": True, "return_token_ids": True}),
    ("stop_token_ids", script(stop_token_ids=[42]), {}),
    ("stop_token_ids_min_tokens", script(stop_token_ids=[41, 43], min_tokens=3), {}),
    ("min_tokens", script([40], min_tokens=3), {}),
    ("ignore_eos", script([40], ignore_eos=True, max_tokens=4), {}),
    ("no_model", script([40]), {"model": None}),
    ("max_tokens_null", script([40], max_tokens=None), {}),
    ("max_tokens_over", script([40], max_tokens=5000), {}),
    ("unknown_fields", script([40], foo=1), {"bar": 1}),
    ("stop_empty", script([40], stop=[]), {}),
    ("output_text_buffer_length", script([40], output_text_buffer_length=3), {}),
    ("prompt_4095", script(), repeat(4095)),
    ("prompt_and_max_tokens_over", script([40, 41, 42, 43], max_tokens=50), repeat(4093)),
    ("error_prompt_4096", script(), repeat(4096)),
    ("error_prompt_4097", script(), repeat(4097)),
    ("error_stop", script(stop=["x"]), {"stream": True}),
    ("error_stop_string", script(stop="x"), {}),
    ("error_stop_without_detokenize", script(stop=["x"], detokenize=False), {}),
    ("error_structured_json", script(structured_outputs={"json": {"type": "object"}}), {}),
    ("error_structured_regex", script(structured_outputs={"regex": "a+"}), {}),
    ("error_stream_structured_tag", script(structured_outputs={"structural_tag": "{}"}), {"stream": True}),
    ("error_output_mode_text", script(), {"output_mode": "text"}),
    ("error_output_mode", script(), {"output_mode": "x"}),
    ("error_model", script(), {"model": "nope"}),
    ("error_stream_model", script(), {"model": "nope", "stream": True}),
    ("error_no_token_ids", script(), {"token_ids": None}),
    ("error_empty_token_ids", script(), {"token_ids": []}),
    ("error_negative_token_id", script(), {"token_ids": [1, -1]}),
    ("error_text_token_id", script(), {"token_ids": ["a"]}),
    ("error_no_sampling_params", None, {}),
    ("error_temperature", script(temperature=-1), {}),
    ("error_temperature_text", script(temperature="x"), {}),
    ("error_top_p", script(top_p=2), {}),
    ("error_top_k", script(top_k=-5), {}),
    ("error_n_0", script(n=0), {}),
    ("error_n_greedy", script(n=2), {}),
    ("error_n_many", script(n=1000, temperature=1), {}),
    ("error_max_tokens_0", script(max_tokens=0), {}),
    ("error_min_over_max", script(max_tokens=3, min_tokens=20), {}),
    ("error_logprobs_21", script(logprobs=21), {}),
    ("error_logprobs_all", script(logprobs=-1), {}),
    ("error_prompt_logprobs", script(prompt_logprobs=-2), {}),
    ("error_script", script("a,b"), {}),
    ("error_allowed_out_of_vocabulary", script(allowed_token_ids=[999999]), {}),
    ("error_allowed_empty", script(allowed_token_ids=[]), {}),
    ("error_bias_out_of_vocabulary", script(logit_bias={"999999": 1}), {}),
    ("error_stop_token_out_of_vocabulary", script(stop_token_ids=[999999]), {}),
    ("error_stop_token_text", script(stop_token_ids=["a"]), {}),
    ("error_stream_logprobs_21", script(logprobs=21), {"stream": True}),
    ("error_stream_script", script("a,b"), {"stream": True}),
    ("error_stream_prompt_4097", script(), {**repeat(4097), "stream": True}),
    ("error_stream_temperature", script(temperature=-1), {"stream": True}),
]
OTHERS = [
    {"name": "x_request_id", "body": {"token_ids": [1], "sampling_params": script([40])}, "headers": {"X-Request-Id": "hdr"}},
    {"name": "error_array", "body": []},
    {"name": "error_json", "raw_body": "{\"a\":"},
    {"name": "error_no_body", "raw_body": ""},
    {"name": "error_utf8", "raw_body": "{\"a\":\"\xff\"}"},
    {"name": "error_content_type", "raw_body": "{}", "headers": {"Content-Type": "text/plain"}},
    *({"name": f"{m} {p}", "method": m, "path": p} for m, p in [
        ("GET", "/health"), ("POST", "/health"), ("GET", "/ping"), ("POST", "/ping"), ("GET", "/version"),
        ("GET", "/load"), ("GET", "/v1/models"), ("GET", GENERATE), ("GET", "/nope"), ("POST", "/nope"),
        ("GET", "/abort_requests"), ("GET", "/v1/models/tiny-qwen3"),
    ]),
    *({"name": f"abort {name} {p}", "path": p, **body} for p in ("/abort_requests", "/inference/v1/abort_requests")
      for name, body in [("unknown", {"body": {"request_ids": ["nope"]}}), ("nothing", {"body": {}}),
                         ("broken", {"raw_body": "{"})]),
]
SCALE_OUT = ("eos", "second_eos", "stream_eos", "stop_strings", "length")


def cases(model, kind):
    for name, sampling, fields in GENERATIONS:
        if sampling is not None:
            sampling = {"temperature": 0, **sampling}
        body = {"request_id": "chatcmpl-fix", "model": model, "token_ids": [10, 11, 12], "sampling_params": sampling, **fields}
        case = {"name": name, "method": "POST", "path": GENERATE, "body": {k: v for k, v in body.items() if v is not None}}
        if kind == "tokens_only" and name == "stop_strings":
            continue
        if kind == "tokens_only" or name in SCALE_OUT:
            yield case
    for case in OTHERS if kind == "tokens_only" else []:
        yield {"method": "POST", "path": GENERATE, **case}


def expand(value):
    if isinstance(value, dict):
        if set(value) == {"repeat"}:
            x, n = value["repeat"]
            return [x] * n
        return {k: expand(v) for k, v in value.items()}
    return value


def send(url, method, path, data=None, headers=None):
    u = urlsplit(url)
    conn = http.client.HTTPConnection(u.hostname, u.port, timeout=120)
    conn.request(method, path, body=data, headers=headers or {})
    r = conn.getresponse()
    text = r.read().decode("utf-8", "replace")
    conn.close()
    return {"status": r.status, "headers": {k.lower(): v for k, v in r.getheaders() if k.lower() in KEEP_HEADERS}, "text": text}


def ask(url, case):
    data = case["raw_body"].encode("latin-1") if "raw_body" in case else None
    if "body" in case:
        data = json.dumps(expand(case["body"])).encode()
    headers = {"Content-Type": "application/json"} if data is not None else {}
    return send(url, case["method"], case["path"], data, {**headers, **case.get("headers", {})})


def main():
    url, model, out, kind = sys.argv[1:]
    with open(f"{out}/{kind}.jsonl", "w", encoding="utf-8") as f:
        for case in cases(model, kind):
            response = ask(url, case)
            f.write(json.dumps({"case": case, "response": response}, separators=(",", ":")) + "\n")
            print(case["name"], response["status"])
        paths = sorted(json.loads(send(url, "GET", "/openapi.json")["text"])["paths"])
        f.write(json.dumps({"openapi_paths": paths}, separators=(",", ":")) + "\n")
        lines = send(url, "GET", "/metrics")["text"].splitlines()
        names = sorted({line.split("{")[0] for line in lines if line.startswith("vllm:") and "bucket" not in line})
        f.write(json.dumps({"metrics": names}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
