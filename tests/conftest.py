"""Every test has a data folder of its own and reaches no network."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("WORKBENCH_DATA", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder
