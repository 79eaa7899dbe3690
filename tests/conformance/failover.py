#!/usr/bin/env python3
"""Two real engines and a simulated one behind one couplet, through the OpenAI SDK: no client notices a failure.

    failover.py COUPLET MODEL ENGINE_1 ENGINE_2 PID_2

COUPLET is the binary, MODEL the directory of the engines' model, ENGINE_n their URLs; ENGINE_2, whose process PID_2 leads a
group of its own, is killed in the middle of twenty streams. Then a simulated engine stalls, and sends garbage, in the middle
of others. Every stream must say its script, and count its tokens, to the end. The engines run the script processor of the
end-to-end kit. Needs the package `openai`.
"""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from openai import AsyncOpenAI

NAME = "tiny-qwen3"
STREAMS = 20
TEXT = " ".join(f"Line {n}: naïve façade, 日本語, {n * n}." for n in range(12))


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def start(log, *command):
    """Starts a couplet command; returns its process and address."""
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "RUST_LOG": "info"})
    for _ in range(600):
        for line in open(log.name):
            if '"address"' in line:
                return process, "http://" + json.loads(line)["address"]
        if process.poll() is not None:
            sys.exit(f"{command} ended: {open(log.name).read()}")
        time.sleep(0.05)
    sys.exit(f"{command} names no address")


def config(model, engines):
    lines = [f"models:\n  - model: {model}\n    served_model_name: [{NAME}]\n    max_model_len: 4096\n    engines:"]
    lines += [f"      - url: {url}" for url in engines]
    lines += ["    pool:\n      policy: round_robin\n      token_timeout: 5\n      health_interval: 1"]
    return "\n".join(lines)


async def stream(client, script, prompt_tokens, faults):
    chunks = await client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": "Hi"}], stream=True, stream_options={"include_usage": True},
        extra_body={"vllm_xargs": {"script": script, "script_from": prompt_tokens, **faults}})
    text, finish, usage = "", None, None
    async for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return text, finish, usage and usage.completion_tokens


async def round_of_streams(url, script, faults, strike=None):
    body = {"model": NAME, "messages": [{"role": "user", "content": "Hi"}]}
    prompt_tokens = len(json.loads(call(f"{url}/v1/chat/completions/render", body))["token_ids"])
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        streams = [asyncio.create_task(stream(client, script, prompt_tokens, faults)) for _ in range(STREAMS)]
        if strike:
            await asyncio.sleep(1)
            strike()
        return await asyncio.gather(*streams, return_exceptions=True)


def resumes(url):
    lines = call(f"{url}/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("couplet_engine_resumes_total{"))


def main():
    couplet, model, engine_1, engine_2, pid_2 = sys.argv[1:]
    processes, logs, failed = [], [tempfile.NamedTemporaryFile("w") for _ in range(2)], False
    try:
        sim, sim_url = start(logs[0], couplet, "sim", "--port", "0", "--model-name", NAME, "--itl", "5", "--max-model-len", "4096")
        processes.append(sim)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(config(model, [engine_1, engine_2, sim_url]))
            file.flush()
            proxy, url = start(logs[1], couplet, "serve", "--config", file.name, "--host", "127.0.0.1", "--port", "0")
        processes.append(proxy)
        script = json.loads(call(f"{url}/tokenize", {"model": NAME, "prompt": TEXT, "add_special_tokens": False}))["tokens"]
        want = (TEXT, "stop", len(script) + 1)
        rounds = [
            ("none fails", {}, None),
            ("one is killed", {}, lambda: os.killpg(int(pid_2), signal.SIGKILL)),
            ("one stalls", {"stall_after_tokens": 40}, None),
            ("one sends garbage", {"garbage_after_tokens": 40}, None),
        ]
        for name, faults, strike in rounds:
            time.sleep(2)  # an engine that failed is left alone for a second
            before = resumes(url)
            replies = asyncio.run(round_of_streams(url, script, faults, strike))
            good = sum(reply == want for reply in replies)
            resumed = resumes(url) - before
            print(f"{name}: {good} of {STREAMS} streams complete, {resumed:.0f} resumed")
            if good != STREAMS or (name != "none fails" and resumed == 0):
                failed = True
                print("FAIL", next((reply for reply in replies if reply != want), "nothing was resumed"))
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    sys.exit(failed)


main()
