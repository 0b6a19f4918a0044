"""Commands run inside the test's process."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workbench.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote where."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def csv(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out)))

    def line(self, start: str) -> list[str]:
        """The cells of the first line of a table that begins so, which two spaces part."""
        found = next(line for line in self.out.splitlines() if line.strip().startswith(start))
        return [cell.strip() for cell in found.split("  ") if cell.strip()]


Workbench = Callable[..., Ended]


@pytest.fixture
def workbench(capsys: pytest.CaptureFixture[str]) -> Workbench:
    def run(*arguments: str | Path) -> Ended:
        words: Sequence[str] = [str(argument) for argument in arguments]
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else -1
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture
def own_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], Path]:
    """Writes a preset into the person's own folder: kind, file name, text."""
    monkeypatch.setattr("workbench.presets.config_folder", lambda: tmp_path / "config")

    def write(kind: str, name: str, text: str) -> Path:
        path = tmp_path / "config" / "presets" / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
