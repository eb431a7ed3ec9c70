#!/usr/bin/env bash
# try_dist.sh PYTHON FILE: installs a sdist or wheel into a new environment, and runs the tour and some tests from there.
set -euo pipefail
python=$1 file=$PWD/$2
top=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/env"
pip=("$place/env/bin/python" -m pip --disable-pip-version-check --quiet install -c "$top/constraints.txt")
"${pip[@]}" "$file[onnxruntime]"
cp -r "$top/tests" "$place/tests"
cd "$place"
unset PYTHONPATH
env/bin/graphport demo >/dev/null
env/bin/graphport doctor
env/bin/graphport schema check >/dev/null
"${pip[@]}" pytest hypothesis jsonschema
env/bin/python -m pytest -q -p no:cacheprovider --import-mode=importlib -o pythonpath=. -c /dev/null --rootdir . \
    tests/cli/test_doctor.py tests/cli/test_streams.py tests/core/test_diagnostics.py
echo "$(basename "$file"): installed, toured and tested"
