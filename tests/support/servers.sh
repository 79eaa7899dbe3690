# Sourced by test scripts: starts servers on free ports and stops them with the script.

SERVER_PIDS=()
SERVER_LOGS=$(mktemp -d)

stop_servers() {
  local pid
  for pid in "${SERVER_PIDS[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  wait "${SERVER_PIDS[@]}" 2>/dev/null || true
  rm -rf "$SERVER_LOGS"
}
trap stop_servers EXIT

# start_server NAME COMMAND...: starts a couplet command with `--port 0`, waits for its address, sets SERVER_URL and
# SERVER_PID. Its log names the address in a line of JSON.
start_server() {
  local log=$SERVER_LOGS/$1.log address="" tries
  shift
  : >"$log"
  RUST_LOG=info "$@" >"$log" 2>&1 &
  SERVER_PID=$!
  SERVER_PIDS+=("$SERVER_PID")
  for tries in $(seq 600); do
    address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$log" | head -1)
    [ -z "$address" ] || break
    kill -0 "$SERVER_PID" 2>/dev/null || { echo "$* ended:" >&2; cat "$log" >&2; return 1; }
    sleep 0.05
  done
  [ -n "$address" ] || { echo "$* names no address" >&2; cat "$log" >&2; return 1; }
  SERVER_URL=http://$address
}

# couplet_binary ROOT: builds the binary if need be and prints its path.
couplet_binary() {
  (cd "$1" && cargo build --quiet --bin couplet)
  echo "${CARGO_TARGET_DIR:-$1/target}/debug/couplet"
}

# make_venv DIR: with python's own module, or with uv where that is missing.
make_venv() {
  rm -rf "$1"
  python3 -m venv "$1" 2>/dev/null || uv venv --quiet --seed "$1"
}
