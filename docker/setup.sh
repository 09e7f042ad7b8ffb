#!/bin/sh
# Sets up what `make demo` and `make test` need: .venv and .cache/jars. Does nothing when all is there.
# This file only finds a Python; the steps are in set_up.py.
set -eu
cd "$(dirname "$0")/.."

# By name first: `python3` may be newer than what the pinned packages have wheels for.
for python in python3.11 python3.12 python3.13 python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" docker/set_up.py "$@"
    fi
done
echo "Python 3.11 or later is missing. To install it: sudo apt-get install python3 python3-venv" \
    "(macOS: brew install python@3.11)" >&2
exit 1
