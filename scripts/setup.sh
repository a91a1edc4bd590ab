#!/usr/bin/env bash
# Installs the distribution packages that are missing. Quick and silent when none is.
#   scripts/setup.sh build [test] [load]
set -euo pipefail

packages=(g++ cmake ninja-build ccache pkg-config python3 libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev
  libedit-dev libssl-dev libboost-dev libjs-chart.js prometheus-cpp-dev libgtest-dev librapidcheck-dev)
# Fetching models needs pip, of whichever Python is first in the path.
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
for group in "$@"; do
  case $group in
    build) ;;
    test) packages+=(clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 python3-venv
      chromium chromium-driver) ;;
    load) packages+=(slowhttptest) ;;
    *) echo "setup.sh: no group '$group'; expected build, test or load" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: this system has no apt-get; please install: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: not root, and sudo is not there; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
