#!/usr/bin/env bash
# run.sh: the OpenAI SDKs for Python and Node against couplet with a simulated engine, then the two programs of vLLM's
# derenderer reference (examples/, unchanged but for model and ports). Installs the SDKs into its own directories; needs
# python3, npm and cargo.
#   COUPLET_BIN     the binary to test (default: built with cargo)
#   COUPLET_CACHE   where the SDKs are kept (default: ~/.cache/couplet)
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
source "$ROOT/tests/support/servers.sh"
source "$HERE/example.sh"

BIN=${COUPLET_BIN:-$(couplet_binary "$ROOT")}
CACHE=${COUPLET_CACHE:-$HOME/.cache/couplet}
VENV=$CACHE/sdk-python-$(sha256sum "$HERE/requirements.txt" | cut -c1-12)
if [ ! -e "$VENV/.done" ]; then
  make_venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r "$HERE/requirements.txt"
  touch "$VENV/.done"
fi
NODE=$CACHE/sdk-node-$(sha256sum "$HERE/node/package.json" | cut -c1-12)
mkdir -p "$NODE" && cp "$HERE/node/"* "$NODE/"
[ -e "$NODE/node_modules/openai" ] || (cd "$NODE" && npm install --silent --no-audit --no-fund)

SIM_FLAGS=(--model-name tiny --vocab-size 2624 --max-model-len 8192 --eos-token-id 2602,2600)
start_server sim "$BIN" sim --port 0 "${SIM_FLAGS[@]}"
SIM=$SERVER_URL
SERVE=("$BIN" serve --model "$ROOT/models/tiny" --served-model-name tiny --host 127.0.0.1 --port 0)
start_server couplet "${SERVE[@]}" --engine "$SIM" --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3
COUPLET=$SERVER_URL
"$VENV/bin/python" "$HERE/sdk.py" "$COUPLET"
node "$NODE/sdk.mjs" "$COUPLET"

# The reference's programs take a model without parsers. The engine echoes, so the answer is known.
start_server plain "${SERVE[@]}" --tool-call-parser none --reasoning-parser none
for example in derender derender_stream; do
  said=$(run_example "$example" "$VENV/bin/python" tiny "$SERVER_URL" "$SIM")
  case $said in
    "What is 2+2?"*) echo "ok   examples/$example.py" ;;
    *) echo "FAIL examples/$example.py said: $said"; exit 1 ;;
  esac
done
