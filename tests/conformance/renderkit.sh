#!/usr/bin/env bash
# renderkit.sh: couplet's render and tokenize routes against answers recorded from vLLM 0.33, over real chat templates
# and tokenizers (the shared render kit; its models are made once, from package registries).
#   COUPLET_BIN, COUPLET_SHARED, COUPLET_CACHE   as .ci/run sets them
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
source "$HERE/floor.sh"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

MODELS=${COUPLET_MODELS:-$COUPLET_CACHE/models}
if [ ! -e "$MODELS/.done" ] && [ -z "${COUPLET_MODELS:-}" ]; then
  cp -r "$COUPLET_SHARED/models" "$WORK/make" && chmod -R u+w "$WORK/make"
  WORK=$WORK/scratch bash "$WORK/make/make_models.sh" "$MODELS" >"$WORK/make.log" 2>&1 || { tail -20 "$WORK/make.log"; exit 1; }
  touch "$MODELS/.done"
fi

cp -r "$COUPLET_SHARED/renderkit" "$WORK/kit" && chmod -R u+w "$WORK/kit"
python3 "$WORK/kit/check_render.py" --golden "$WORK"/kit/goldens/given/*.jsonl \
  --models "$MODELS" --templates "$MODELS/_templates" \
  --launch "$COUPLET_BIN serve {model_dir} --host 127.0.0.1 --port {port} --served-model-name parity
            [--tool-call-parser {tool_parser} --enable-auto-tool-choice]
            [--reasoning-parser {reasoning_parser}] [--chat-template {chat_template}]" >"$WORK/log" 2>&1 || true
grep -E '^(templates|models): ' "$WORK/log" || tail -20 "$WORK/log"
floor renderkit "$WORK/log"
