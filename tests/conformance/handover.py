#!/usr/bin/env python3
"""Streams that change servers in the middle: vLLM's derenderer and couplet, at every token.

    handover.py KIT record OUT.jsonl       what vLLM answers for each token, with the state after it
    handover.py KIT live COUPLET           start at vLLM and go on at couplet, and the other way, at every token

KIT is the parity kit (its oracle.py holds vLLM 0.33 in one process); run with vLLM's Python. COUPLET is the binary.
The models and the outputs come from this folder. Exit status 1 if any stream differs.
"""
import http.client
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Golden file, case: cuts fall inside characters, reasoning, content and two calls.
CASES = [("hermes+qwen3", "plain"), ("hermes+qwen3", "reason-content-parallel"),
         ("hermes+qwen3", "prompt-open-content"), ("hermes+qwen3", "call-only"), ("-", "plain")]
PORT = 18390


def load(file, case):
    """A golden line with its definitions filled in; file "-" takes the output of hermes+qwen3 without parsers."""
    defs = json.load(open(f"{HERE}/goldens/defs.json"))

    def expand(x):
        if isinstance(x, str):
            return defs.get(x, x)
        if isinstance(x, list):
            return [expand(y) for y in x]
        if isinstance(x, dict):
            return {k: expand(v) for k, v in x.items()}
        return x

    path = f"{HERE}/goldens/{'hermes+qwen3' if file == '-' else file}.jsonl"
    line = next(d for d in map(json.loads, open(path)) if d["id"] == case)
    if file == "-":
        line["tool_parser"] = line["reasoning_parser"] = None
        line["enable_auto_tool_choice"] = False
        line["chat_request"] = {"messages": [{"role": "user", "content": "x"}]}
    return expand(line)


def bodies(line):
    out = line["outputs"][0]
    for at, token in enumerate(out["token_ids"]):
        last = at + 1 == len(out["token_ids"])
        yield {"stream": True, "model": "parity", "generate_chunk": {"request_id": "parity", "choices": [{
            "index": 0, "token_ids": [token], "finish_reason": out["finish_reason"] if last else None,
            "stop_reason": out.get("stop_reason") if last else None}]},
            "prompt_token_ids": line["prompt_token_ids"], "chat_request": line["chat_request"]}


def merge(chunks):
    got = {"content": "", "reasoning": "", "calls": {}, "finish": None}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            got["content"] += delta.get("content") or ""
            got["reasoning"] += delta.get("reasoning") or ""
            for call in delta.get("tool_calls") or ():
                target = got["calls"].setdefault(call["index"], ["", ""])
                target[0] += call["function"].get("name") or ""
                target[1] += call["function"].get("arguments") or ""
            got["finish"] = choice.get("finish_reason") or got["finish"]
    return got


def stream(servers, line):
    """Sends each token to the server that `servers` gives for it."""
    chunks, states, state = [], [], None
    for at, body in enumerate(bodies(line)):
        status, answer = servers(at)(line["endpoint"], dict(body, stream_state=state))
        assert status == 200, answer
        state = answer["stream_state"]
        chunks.append(answer["chunk"])
        states.append(state)
    return chunks, states


def vllm(oracle, line):
    app = oracle.app(f"{HERE}/models/{line['model']}", line["tool_parser"], line["reasoning_parser"])
    return lambda path, body: oracle.post(app, path, body)


def couplet(binary, line):
    command = [binary, "serve", "--model", f"{HERE}/models/{line['model']}", "--served-model-name", "parity",
               "--host", "127.0.0.1", "--port", str(PORT)]
    if line["tool_parser"]:
        command += ["--tool-call-parser", line["tool_parser"], "--enable-auto-tool-choice"]
    if line["reasoning_parser"]:
        command += ["--reasoning-parser", line["reasoning_parser"]]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def post(path, body):
        for attempt in range(100):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
                connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
                response = connection.getresponse()
                return response.status, json.loads(response.read())
            except ConnectionRefusedError:
                time.sleep(0.1)
        sys.exit("couplet did not start")

    return process, post


def record(oracle, path):
    with open(path, "w") as out:
        for file, case in CASES:
            line = load(file, case)
            post = vllm(oracle, line)
            chunks, states = stream(lambda at: post, line)
            for chunk in chunks:
                chunk.pop("created", None)
            keep = {k: line[k] for k in ("model", "tool_parser", "reasoning_parser", "enable_auto_tool_choice",
                                         "endpoint", "prompt_token_ids", "outputs", "chat_request")}
            out.write(json.dumps({"id": f"{file}/{case}", **keep, "chunks": chunks, "states": states},
                                 ensure_ascii=False) + "\n")


def live(oracle, binary):
    bad = total = 0
    for file, case in CASES:
        line = load(file, case)
        theirs = vllm(oracle, line)
        process, ours = couplet(binary, line)
        try:
            want = merge(stream(lambda at: theirs, line)[0])
            for cut in range(1, len(line["outputs"][0]["token_ids"])):
                for name, first, then in (("vLLM to couplet", theirs, ours), ("couplet to vLLM", ours, theirs)):
                    got = merge(stream(lambda at: first if at < cut else then, line)[0])
                    total += 1
                    if got != want:
                        bad += 1
                        print(f"{file}/{case} {name} at {cut}:\n  want {want}\n  got  {got}")
        finally:
            process.terminate()
            process.wait()
    print(f"{total - bad} passed, {bad} failed")
    return bad


if __name__ == "__main__":
    kit, mode, target = sys.argv[1:4]
    sys.path.insert(0, kit)
    from oracle import Oracle
    if mode == "record":
        record(Oracle(), target)
    else:
        sys.exit(1 if live(Oracle(), target) else 0)
