#!/usr/bin/env bash
# kit.sh [GOLDEN...]: couplet's derender routes against answers recorded from vLLM 0.33 (the shared parser kit).
#
# What must hold: without a parser, and for requests around a parser, everything; for a parser every case in which
# vLLM's streams agree with its own one-shot answer. Where vLLM contradicts itself nobody can agree with both.
#   COUPLET_BIN, COUPLET_SHARED, COUPLET_CACHE   as .ci/run sets them
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
KIT=$COUPLET_SHARED/kit
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

cp -r "$KIT" "$WORK/kit" && chmod -R u+w "$WORK/kit"
python3 "$WORK/kit/make_models.py" "$WORK/models" >/dev/null
PORT=$(python3 "$HERE/free_port.py")
SERVER="$COUPLET_BIN serve --model {model_dir} --served-model-name parity --host 127.0.0.1 --port {port}"

# check GOLDEN... [-- FLAGS]
check() {
  local goldens=() flags=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do goldens+=("$1"); shift; done
  [ $# -eq 0 ] || flags=("${@:2}")
  python3 "$WORK/kit/check.py" --models "$WORK/models" --port "$PORT" --log "$WORK/server.log" --max-diffs 2 \
    --launch "$SERVER {tool_flags} {reasoning_flags}" --golden "${goldens[@]}" ${flags[@]+"${flags[@]}"}
}

given=$WORK/kit/goldens/given
if [ $# -gt 0 ]; then
  check "$@" -- --agree-only
  exit
fi
check "$given"/plain-*.jsonl "$given"/parser-requests.jsonl
for level in exact merged; do
  files=()
  for pair in $(sed -n "s/ $level\$//p" "$HERE/parsers.txt"); do files+=("$given/$pair.jsonl"); done
  check "${files[@]}" -- --agree-only --level "$level"
done
