#!/usr/bin/env bash
# scrape.sh: how long /metrics takes while many streams run. Prints the figures; how quick a machine is, is no test.
#
#   COUPLET_BIN   as .ci/run sets it; a release build tells what a user sees
#   STREAMS       how many at once (default: 200)
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
source "$HERE/../support/servers.sh"

ENGINES=()
for name in one two; do
  start_server "$name" "$COUPLET_BIN" sim --port 0 --model-name tiny --vocab-size 2624 --max-model-len 8192 \
    --eos-token-id 2602 --ttft 20 --itl 20
  ENGINES+=(--engine "$SERVER_URL")
done
export COUPLET_VLLM_METRIC_NAMES=true # the longer scrape
start_server couplet "$COUPLET_BIN" serve --model "$ROOT/models/tiny" --served-model-name tiny "${ENGINES[@]}" \
  --tool-call-parser hermes --reasoning-parser qwen3 --host 127.0.0.1 --port 0
echo "scrapes of $COUPLET_BIN on $(nproc) cores:"
python3 "$HERE/scrape.py" "$SERVER_URL" "${STREAMS:-200}"
