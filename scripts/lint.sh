#!/usr/bin/env bash
# The code's form: formatting, file length, clang-tidy, and that Clang builds it without a warning.
#   scripts/lint.sh         check
#   scripts/lint.sh --fix   format in place
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.cpp' '*.h' '*.inl')
if [[ ${1:-} == --fix ]]; then
  clang-format-14 -i "${sources[@]}"
  exit 0
fi

echo "lint: format"
clang-format-14 --dry-run -Werror "${sources[@]}"

echo "lint: file length"
long=0
while read -r lines file; do
  [[ $file == total ]] && continue
  if ((lines > 400)) && ! head -5 "$file" | grep -q 'Long because'; then
    echo "$file: $lines lines; at most 400, or say 'Long because ...' at the top" >&2
    long=1
  fi
done < <(git ls-files '*.cpp' '*.h' '*.inl' '*.py' | xargs wc -l)
((long == 0))

echo "lint: clang build"
cmake --preset dev >/dev/null
cmake --build --preset dev -j "$(nproc)"

echo "lint: clang-tidy"
mapfile -t units < <(git ls-files 'src/*.cpp' | grep -v '_test\.cpp$')
python3 scripts/tidy.py --build build/dev "${units[@]}"
echo "lint: clean"
