#!/usr/bin/env python3
"""disconnect.py COUPLET ENGINE: a client that goes away must free a real engine within a second. Standard library only."""
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

LIMIT = 1.0


def connect(url):
    u = urlsplit(url)
    return http.client.HTTPConnection(u.hostname, u.port, timeout=60)


def running(engine):
    conn = connect(engine)
    conn.request("GET", "/metrics")
    lines = conn.getresponse().read().decode().splitlines()
    conn.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:num_requests_running{"))


def wait(engine, want):
    start = time.time()
    while (running(engine) > 0) is not want:
        if time.time() - start > 10:
            raise SystemExit(f"FAIL running requests stay at {running(engine)}")
        time.sleep(0.02)
    return time.time() - start


def main():
    couplet, engine = sys.argv[1:]
    for path in ("/v1/chat/completions", "/v1/completions"):
        for stream in (True, False):
            body = {"model": "tiny-qwen3", "messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "temperature": 0,
                    "ignore_eos": True, "max_tokens": 3500, "stream": stream}
            conn = connect(couplet)
            conn.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            wait(engine, True)
            response = conn.getresponse() if stream else None
            if response:
                response.read(500)
                response.close()
            conn.close()
            took = wait(engine, False)
            kind = "stream" if stream else "whole"
            print(f"{path} {kind}: the engine is free {took * 1000:.0f} ms after the client left")
            if took > LIMIT:
                raise SystemExit(f"FAIL more than {LIMIT} s")


main()
