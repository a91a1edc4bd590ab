#!/bin/sh
# Makes the private Python environment in which the server is tested with the clients people use, outside the
# checkout, and prints the path of its interpreter. Safe to run again, and quick then.
set -eu

env=${XDG_CACHE_HOME:-$HOME/.cache}/quire/clients
python=$env/bin/python

say() { echo "client_env: $*" >&2; }

if ! "$python" -c 'import pytest, openai, anthropic, selenium' >/dev/null 2>&1; then
  say "creating $env with pytest, openai, anthropic and selenium"
  if ! python3 -m venv --clear "$env" >&2; then
    say "python3 cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"
    exit 1
  fi
  "$python" -m pip install --quiet --disable-pip-version-check pytest openai anthropic selenium >&2
fi
echo "$python"
