#!/usr/bin/env python3
"""Times scrapes of couplet while streams run.

    scrape.py COUPLET STREAMS

COUPLET is a URL. So many streams run at once, read by a process of their own; another one ends as a new one begins.
"""
import asyncio
import http.client
import json
import multiprocessing
import re
import statistics
import sys
import time
import urllib.parse
import urllib.request

SCRAPES = 200
PAUSE_SECONDS = 0.05
WARM_UP_SECONDS = 2
# Tokens of a stream: a few seconds of the simulator's.
TOKENS = 150


def post(url, body):
    headers = {"content-type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))


def request(couplet, host):
    text = "</think>\n\n" + "One, two, three, four, five. " * 60
    ids = post(f"{couplet}/tokenize", {"model": "tiny", "prompt": text, "add_special_tokens": False})["tokens"][:TOKENS]
    assert len(ids) == TOKENS, len(ids)
    messages = [{"role": "user", "content": "Hello."}]
    body = json.dumps({"model": "tiny", "messages": messages, "stream": True, "vllm_xargs": {"script": ids}}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def stream(host, port, request):
    reader, writer = await asyncio.open_connection(host, port)
    while True:
        writer.write(request)
        last = b""
        while not last.endswith(b"0\r\n\r\n"):
            read = await reader.read(65536)
            assert read, "the connection ended"
            last = (last + read)[-5:]


def load(couplet, streams):
    url = urllib.parse.urlsplit(couplet)
    wanted = request(couplet, url.netloc)

    async def run():
        await asyncio.gather(*(stream(url.hostname, url.port, wanted) for _ in range(streams)))

    asyncio.run(run())


def scrape(connection):
    start = time.perf_counter()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return (time.perf_counter() - start) * 1000, text


def total(text, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M))


def times(connection):
    taken = []
    for _ in range(SCRAPES):
        took, text = scrape(connection)
        taken.append(took)
        time.sleep(PAUSE_SECONDS)
    return sorted(taken), text


def tell(name, taken):
    p99 = taken[int(len(taken) * 0.99) - 1]
    print(f"  {name}: median {statistics.median(taken):.2f} ms, p99 {p99:.2f} ms, longest {taken[-1]:.2f} ms ({len(taken)} scrapes)")


def main():
    couplet, streams = sys.argv[1], int(sys.argv[2])
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(couplet).netloc)
    idle, _ = times(connection)
    tell("idle", idle)
    reader = multiprocessing.Process(target=load, args=(couplet, streams), daemon=True)
    reader.start()
    time.sleep(WARM_UP_SECONDS)
    begin, before = time.perf_counter(), scrape(connection)[1]
    busy, text = times(connection)
    seconds = time.perf_counter() - begin
    assert reader.is_alive(), "the streams ended"
    reader.terminate()
    tokens = (total(text, "couplet_generated_tokens_total") - total(before, "couplet_generated_tokens_total")) / seconds
    running = total(text, "couplet_pool_running_requests")
    assert running > streams / 2, f"{running:.0f} of {streams} streams ran"
    tell(f"{running:.0f} streams, {tokens:.0f} tokens/s", busy)
    series = sum(not line.startswith("#") for line in text.splitlines())
    print(f"  {series} series, {len(text)} bytes")


main()
