#!/bin/sh
# Tests of the server, in the environment that has its clients.
set -eu
cd "$(dirname "$0")"
exec "$(../../scripts/client_env.sh)" -m pytest -q -x -p no:cacheprovider "$@" .
