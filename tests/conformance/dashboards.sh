#!/usr/bin/env bash
# dashboards.sh: the rules by promtool, and a real Prometheus in front of couplet under simulated load.
#
# Every query of every panel must have data, and every rule must evaluate. Needs promtool and prometheus (Debian's package
# `prometheus`), Python 3, and no network.
#   COUPLET_BIN   as .ci/run sets it
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
source "$HERE/../support/servers.sh"

cd "$ROOT/dashboards"
promtool check config prometheus.yml
promtool test rules rules_test.yml

ENGINES=""
for name in one two; do
  start_server "$name" "$COUPLET_BIN" sim --port 0 --model-name tiny --vocab-size 2624 --max-model-len 8192 \
    --eos-token-id 2602 --ttft 20 --itl 5
  ENGINES+="      - {url: \"$SERVER_URL\"}"$'\n'
done
cat >"$SERVER_LOGS/couplet.yaml" <<YAML
models:
  - model: $ROOT/models/tiny
    served_model_name: [tiny]
    tool_call_parser: hermes
    reasoning_parser: qwen3
    enable_auto_tool_choice: true
    trust_request_chat_template: true
    pool: {policy: prefix, requests_per_minute: 20, max_running: 4}
    engines:
$ENGINES
YAML
start_server couplet "$COUPLET_BIN" serve --config "$SERVER_LOGS/couplet.yaml" --host 127.0.0.1 --port 0
COUPLET_URL=$SERVER_URL

PORT=$(python3 "$HERE/free_port.py")
sed -e "s/127.0.0.1:8000/${COUPLET_URL#http://}/" -e 's/5s/1s/' -e "s|rules.yml|$PWD/rules.yml|" prometheus.yml \
  >"$SERVER_LOGS/prometheus.yml"
prometheus --config.file="$SERVER_LOGS/prometheus.yml" --storage.tsdb.path="$SERVER_LOGS/data" \
  --web.listen-address="127.0.0.1:$PORT" >"$SERVER_LOGS/prometheus.log" 2>&1 &
SERVER_PIDS+=("$!")

python3 "$HERE/dashboards.py" "$COUPLET_URL" "http://127.0.0.1:$PORT" "$ROOT/dashboards/grafana"
curl -sf "$COUPLET_URL/metrics" | promtool check metrics
