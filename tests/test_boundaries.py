"""The import boundaries of the design: what may import what, and what starts without torch or textual."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
SCREEN = {"textual", "plotext"}
TORCH = {"torch", "transformers", "accelerate"}


def imported_roots(path: Path) -> set[str]:
    roots: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                roots |= {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                roots.add(module.split(".")[0])
            case _:
                pass
    return roots


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_only_the_screen_imports_textual_and_plotext() -> None:
    outside = [path for path in modules() if PACKAGE / "ui" not in path.parents]
    assert outside
    assert [path for path in outside if imported_roots(path) & SCREEN] == []


def test_only_engines_probe_and_experiments_import_torch() -> None:
    allowed = (PACKAGE / "engines", PACKAGE / "experiments", PACKAGE / "hardware" / "probe")
    others = [path for path in modules() if not any(path == a or a in path.parents for a in allowed)]
    assert [path for path in others if imported_roots(path) & TORCH] == []


@pytest.mark.parametrize(
    "module",
    [
        "workbench.quantity",
        "workbench.cli",
        "workbench.headless",
        "workbench.runner",
        "workbench.models.resolve",
        "workbench.models.inspection",
        "workbench.tracks",
        "workbench.commands.ceilings",
        "workbench.commands.models",
        "workbench.commands.runs",
        "workbench.commands.sweeps",
        "workbench.ceilings.levers",
        "workbench.ceilings.roofline",
        "workbench.ceilings.prefill",
        "workbench.ceilings.memory_fit",
        "workbench.runs.store",
        "workbench.runs.export",
        "workbench.runs.importers.importing",
        "workbench.experiments.prefill_decode",
        "workbench.ui.app",
    ],
)
def test_starts_without_torch_or_the_screen(module: str) -> None:
    unwanted = TORCH if module.startswith("workbench.ui") else TORCH | SCREEN
    code = f"import sys, {module}; print(sorted(set({sorted(unwanted)!r}) & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
