#!/usr/bin/env bash
# What takes longer than a coffee: the suite under sanitizers, ten million operations on the cache, cached
# against uncached generation on both real models, 10,000 malformed requests and as many clients that leave, and
# 2,000 random requests together and one at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

for preset in asan tsan; do
  echo "test-long: $preset"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -j "$(nproc)"
  QUIRE_PROPERTY_OPERATIONS=100000 QUIRE_MALFORMED=10000 QUIRE_LEAVERS=10000 ctest --preset "$preset"
done
echo "test-long: ten million operations on the cache"
cmake --build --preset release --target cache_property_test -j "$(nproc)"
QUIRE_PROPERTY_OPERATIONS=10000000 build/release/src/cache/cache_property_test
echo "test-long: cached against naive generation"
for model in models/*.gguf; do
  python3 scripts/equality.py --quire build/quire --model "$model"
done
echo "test-long: random requests together and one at a time"
cmake --build --preset release --target engine_shows -j "$(nproc)"
build/release/engine_shows random -m models/SmolLM2-135M-Instruct.Q4_1.gguf --requests 2000
