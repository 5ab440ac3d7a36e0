#!/bin/bash
# Sees to what pip cannot install: a C++ compiler and Python's headers (fasttext is built from source), the venv module,
# and what only tests need: Slurm with munge for those of slurm/, Chromium for those that look at pages. As root on Debian
# or Ubuntu it installs what is missing; elsewhere it says in one line what to install. What only tests need may be
# missing: they then skip. (Ubuntu has Chromium as a snap only, which apt cannot install in a container.)
set -euo pipefail
python=${PYTHON:-python3.11}
have() { command -v "$1" >/dev/null; }
can_install() { [ "$(id -u)" = 0 ] && have apt-get; }

missing=()
have "$python" || missing+=(python3.11 python3.11-venv python3.11-dev)
if have "$python"; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3.11-venv)
    "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        missing+=(python3.11-dev)
fi
have g++ || missing+=(g++)
wanted=()
PATH=$PATH:/usr/sbin
have slurmctld && have slurmd && have sbatch || wanted+=(slurm-wlm)
have munged || wanted+=(munge)
have chromium || have chromium-browser || have google-chrome || wanted+=(chromium)
[ ${#missing[@]} = 0 ] && [ ${#wanted[@]} = 0 ] && exit 0

if can_install; then
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    install() { apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1; }
    echo "installing with apt: ${missing[*]} ${wanted[*]}"
    apt-get update -qq >>"$log" 2>&1 || true
    if [ ${#missing[@]} != 0 ] && ! install "${missing[@]}"; then
        tail -n 5 "$log" >&2
        echo "error: apt could not install ${missing[*]}" >&2
        exit 1
    fi
    for package in "${wanted[@]}"; do
        install "$package" || echo "note: apt could not install $package; tests that need it will skip (see $log)" >&2
    done
    exit 0
fi
[ ${#wanted[@]} = 0 ] || echo "note: to run all tests, install ${wanted[*]} as root" >&2
[ ${#missing[@]} = 0 ] || { echo "error: install ${missing[*]} first (apt-get install ${missing[*]})" >&2; exit 1; }
