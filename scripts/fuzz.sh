#!/usr/bin/env bash
# Runs every fuzz target for the given number of seconds, two at a time. A finding fails the script.
#   scripts/fuzz.sh SECONDS [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?"usage: scripts/fuzz.sh SECONDS [TARGET ...]"}
shift
cmake --preset fuzz >/dev/null
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=($(cd fuzz && ls -- *_fuzz.cpp | sed 's/\.cpp$//'))
cmake --build --preset fuzz -j "$(nproc)" --target "${targets[@]}"

# Inputs that found something new are kept under build/, and start the next run.
run_one() {
  local name=$1 corpus=build/corpus/$1 log=build/fuzz/$1.log
  local seeds=()
  [[ -d fuzz/corpus/$name ]] && seeds=("fuzz/corpus/$name")
  mkdir -p "$corpus"
  if build/fuzz/fuzz/"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$name-" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, nothing found"
  else
    tail -40 "$log"
    echo "$name: FOUND SOMETHING; see $log"
    return 1
  fi
}
export -f run_one
export seconds
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'run_one {}'
