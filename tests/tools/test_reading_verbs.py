"""Verbs and functions that read change no file: a sample of the folders of `tools/reading_verbs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "reading_verbs.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files that are open are named in /proc")


def read(folders: int, every: int) -> str:
    command = [sys.executable, str(TOOL), "--folders", str(folders), "--every", str(every)]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def test_reading_changes_no_file_of_hostile_folders():
    assert "\n0 events outside" in read(24, 12)


@pytest.mark.conformance
def test_reading_changes_no_file_of_a_thousand_hostile_folders():
    assert "\n0 events outside" in read(1000, 40)
