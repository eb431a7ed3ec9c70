from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def kernels_of_these_tests(tmp_path_factory):
    """Use a temporary kernel cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHPORT_KERNELS", str(tmp_path_factory.mktemp("kernels")))
        yield
