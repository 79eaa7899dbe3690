# Sourced by test scripts: runs one of the two programs of vLLM's derenderer reference (examples/), unchanged but for its
# model and its ports.

EXAMPLES=$(cd "$(dirname "${BASH_SOURCE[0]}")/examples" && pwd)

# run_example NAME PYTHON MODEL RENDER_URL ENGINE_URL: prints what the program prints. PYTHON has httpx.
run_example() {
  "$2" -c "$(sed -e "s#meta-llama/Llama-3.2-1B-Instruct#$3#" -e "s#http://localhost:8100#$4#" \
    -e "s#http://localhost:8200#$5#" "$EXAMPLES/$1.py")"
}
