"""Every test has a data folder of its own and reaches no network."""

import gc
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("WORKBENCH_DATA", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


def pytest_collection_finish() -> None:
    """Leave what has been imported out of every later search for garbage: torch's objects are a fifth of the time."""
    gc.collect()
    gc.freeze()
