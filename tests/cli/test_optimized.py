"""`python -OO`, which removes docstrings, prints the same help and explanations."""

from __future__ import annotations

import subprocess
import sys

from graphport.cli.main import VERBS

PROGRAM = """
import sys
from click.testing import CliRunner
from graphport.cli.main import VERBS, cli
for arguments in (["--help"], *([verb, "--help"] for verb in VERBS), ["ops"], ["ops", "Conv"], ["explain", "Clip"],
                  ["explain", "fuse_batchnorm"], ["explain", "onnxruntime"], ["explain", "NNEF0302"]):
    result = CliRunner().invoke(cli, arguments, prog_name="graphport")
    sys.stdout.write(f"== {arguments} {result.exit_code}\\n{result.output}\\n")
"""


def printed(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    return done.stdout


def test_help_is_the_same_without_docstrings():
    expected = printed()
    assert len(expected) > 10_000
    assert all(f"['{verb}', '--help'] 0" in expected for verb in VERBS)
    assert printed("-OO") == expected
