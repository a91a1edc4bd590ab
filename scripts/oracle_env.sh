#!/bin/sh
# Makes the private Python environment that the scripts in scripts/oracles run in, outside the
# checkout, and prints the path of its interpreter as the last line. Safe to run again: what is
# there already is left alone.
#
#   scripts/oracle_env.sh [models|peers|all]
#
#   models  transformers and the gguf package: makes the fixtures in tests/data   (default)
#   peers   llama.cpp, OpenVINO GenAI, and the OpenAI and Anthropic clients: what Quire is compared with
#   all     both
set -eu

usage() {
  awk 'NR > 1 { if (!sub(/^# ?/, "")) exit; print }' "$0" >&2
  exit 2
}

group=${1:-models}
case $group in
  models | peers | all) ;;
  *) usage ;;
esac
[ $# -le 1 ] || usage

env=${XDG_CACHE_HOME:-$HOME/.cache}/quire/oracles
python=$env/bin/python

# Progress goes to stderr, so that $(scripts/oracle_env.sh) is the interpreter and nothing else.
say() { echo "oracle_env: $*" >&2; }

install() { "$python" -m pip install --quiet --disable-pip-version-check "$@" >&2; }

if ! "$python" -m pip --version >/dev/null 2>&1; then
  say "creating $env"
  if ! python3 -m venv --clear "$env" >&2; then
    say "python3 cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"
    exit 1
  fi
fi

if [ "$group" != peers ]; then
  say "models: gguf numpy jinja2 sentencepiece torch transformers"
  install gguf numpy jinja2 sentencepiece torch transformers
fi

if [ "$group" != models ]; then
  if ! "$python" -c 'import gguf, numpy, openai, anthropic, openvino_genai' >/dev/null 2>&1; then
    say "peers: openvino-genai openai anthropic"
    install gguf numpy openvino-genai openai anthropic
  fi
  if ! "$python" -c 'import llama_cpp' >/dev/null 2>&1; then
    say "peers: llama-cpp-python, compiled for this processor; this takes minutes"
    # Compiled here rather than taken as a wheel: a generic build would make a slow opponent.
    CMAKE_ARGS="-DGGML_NATIVE=ON ${CMAKE_ARGS:-}" install --no-binary llama-cpp-python llama-cpp-python
  fi
fi

echo "$python"
