#!/bin/sh
# Builds llama.cpp's server for this processor, from the sources inside the llama-cpp-python package, outside the checkout, and
# prints the path of the program as the last line. Safe to run again: what is there already is left alone.
set -eu

[ $# -eq 0 ] || { echo "usage: scripts/llama_server.sh" >&2; exit 2; }

home=${XDG_CACHE_HOME:-$HOME/.cache}/quire/llama-server
program=$home/build/bin/llama-server

say() { echo "llama_server: $*" >&2; }

mkdir -p "$home"
if [ ! -e "$home/version" ]; then
  say "fetching the sources of llama-cpp-python"
  rm -rf "$home/src" "$home"/*.tar.gz
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python -d "$home" llama-cpp-python >&2
  mkdir "$home/src"
  tar xzf "$home"/llama_cpp_python-*.tar.gz -C "$home/src" --strip-components=1
  basename "$home"/llama_cpp_python-*.tar.gz .tar.gz >"$home/version"
fi
if [ ! -x "$program" ]; then
  say "building $(cat "$home/version"); this takes many minutes"
  # Its web page would be fetched from elsewhere, and nobody looks at it here.
  cmake -S "$home/src/vendor/llama.cpp" -B "$home/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DBUILD_SHARED_LIBS=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$home/configure.log"
  cmake --build "$home/build" --target llama-server >"$home/build.log" 2>&1 || { tail -20 "$home/build.log" >&2; exit 1; }
fi
echo "$program"
