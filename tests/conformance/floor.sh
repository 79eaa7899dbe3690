# Sourced by conformance scripts, for comparisons that do not pass in full yet.

# floor NAME LOG: the last "N passed" in LOG must reach NAME's number in floors.txt, which only ever goes up.
floor() {
  local want got
  want=$(sed -n "s/^$1 //p" "$(dirname "${BASH_SOURCE[0]}")/floors.txt")
  got=$(grep -o '[0-9]* passed' "$2" | tail -1 | cut -d' ' -f1)
  echo "$1: ${got:-0} passed, at least $want must"
  [ "${got:-0}" -ge "$want" ]
}
