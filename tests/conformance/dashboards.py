#!/usr/bin/env python3
"""Load on couplet, and then every query of the dashboards to the Prometheus that scraped it.

    dashboards.py COUPLET PROMETHEUS DIRECTORY

COUPLET and PROMETHEUS are URLs, DIRECTORY holds the dashboards. The load has a bit of everything that is counted: streams,
whole answers, clients that leave, calls that are none, templates that refuse, engines that die, a key that asks too often.
"""
import json
import math
import pathlib
import random
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

LOAD_SECONDS = 20
# How long Prometheus may take to start on a machine that has other things to do.
FIRST_SCRAPE_SECONDS = 60
TEXT = "</think>\n\nOne, two, three, four, five, six, seven, eight."
NO_CALL = "</think>\n\n<tool_call>\n{\"name\": ping}\n</tool_call>"
TOOLS = [{"type": "function", "function": {"name": "ping", "parameters": {}}}]
# What stands for Grafana's variables.
VARIABLES = {"$__rate_interval": "10s", "$model": ".*", "$engine": ".*"}


def post(url, body, key=None):
    key = key or f"{random.random()}"
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60)


class Load:
    def __init__(self, couplet):
        self.couplet = couplet
        self.ids = {text: self.tokenize(text) for text in (TEXT, NO_CALL)}
        self.until = time.monotonic() + LOAD_SECONDS

    def tokenize(self, text):
        body = {"model": "tiny", "prompt": text, "add_special_tokens": False}
        return json.load(post(f"{self.couplet}/tokenize", body))["tokens"]

    def chat(self, text=TEXT, key=None, leaves=False, xargs={}, **more):
        messages = [{"role": "user", "content": "Hello. " * 300}]
        body = {"model": "tiny", "messages": messages, "vllm_xargs": {"script": self.ids[text], **xargs}, **more}
        with post(f"{self.couplet}/v1/chat/completions", body, key) as answer:
            if leaves:
                answer.readline()
            else:
                answer.read()

    def completion(self):
        post(f"{self.couplet}/v1/completions", {"model": "tiny", "prompt": "Hello", "stream": True}).read()

    def run(self):
        kinds = [
            lambda: self.chat(stream=True),
            lambda: self.chat(),
            lambda: self.chat(NO_CALL, stream=True, tools=TOOLS),
            lambda: self.chat(stream=True, leaves=True),
            lambda: self.chat(stream=True, xargs={"die_after_tokens": 3}),
            lambda: self.chat(chat_template="{{ raise_exception('no') }}"),
            lambda: self.chat(key="the same"),
            self.completion,
        ]
        threads = [threading.Thread(target=self.repeat, args=(kind,)) for kind in kinds]
        for thread in threads:
            thread.start()
        return threads

    def repeat(self, kind):
        while time.monotonic() < self.until:
            try:
                kind()
            except urllib.error.HTTPError:
                pass  # some are refused, as they should be
            time.sleep(0.05)


def query(prometheus, expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    url = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    values = [float(series["value"][1]) for series in json.load(urllib.request.urlopen(url))["data"]["result"]]
    return [value for value in values if not math.isnan(value)]


def wait_for_scrape(prometheus):
    """The load begins with the first scrape: the queries look back a few seconds."""
    until = time.monotonic() + FIRST_SCRAPE_SECONDS
    while True:
        try:
            targets = json.load(urllib.request.urlopen(f"{prometheus}/api/v1/targets"))["data"]["activeTargets"]
        except OSError:
            targets = []  # it does not answer yet
        if any(target["health"] == "up" for target in targets):
            return
        errors = [target["lastError"] for target in targets]
        assert time.monotonic() < until, f"Prometheus has not scraped couplet: {errors}"
        time.sleep(0.2)


def expressions(directory):
    for path in sorted(pathlib.Path(directory).glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.stem}: {panel['title']}", target["expr"]


def main():
    couplet, prometheus, directory = sys.argv[1:]
    wait_for_scrape(prometheus)
    load = Load(couplet)
    threads = load.run()
    time.sleep(LOAD_SECONDS - 3)  # the queries are asked while there is load
    asked = list(expressions(directory))
    empty = []
    for title, expression in asked:
        values = query(prometheus, expression)
        if not values:
            empty.append(f"{title}: {expression}")
    rules = json.load(urllib.request.urlopen(f"{prometheus}/api/v1/rules"))["data"]["groups"]
    rules = [rule for group in rules for rule in group["rules"]]
    sick = [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]
    for thread in threads:
        thread.join()
    print(f"{len(asked) - len(empty)} of {len(asked)} queries have data; {len(rules) - len(sick)} of {len(rules)} rules evaluate")
    for problem in empty + sick:
        print(f"  {problem}")
    sys.exit(bool(empty or sick))


main()
