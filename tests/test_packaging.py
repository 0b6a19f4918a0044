"""The wheel carries what the app needs, and runs in an environment of its own from another folder."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.terminal import Terminal
from tests.test_boundaries import imported_roots, modules

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("inference_workbench-*.whl"))


def test_the_wheel_carries_styles_and_presets(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("styles", "presets"):
        shipped = [p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()]
        assert shipped
        assert {f"workbench/{name}" for name in shipped} <= names
    assert any(name.startswith("workbench/ui/help/") and not name.endswith(".py") for name in names)


def test_the_app_starts_from_the_wheel_in_another_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    zipfile.ZipFile(wheel).extractall(site)
    # The dependencies are those of this environment: they come after the wheel, and the checkout is not among them.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = subprocess.run(
        [python, "-c", "import workbench; print(workbench.__file__)"],
        cwd=elsewhere,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(site)
    with Terminal([str(python), "-m", "workbench"], 100, 30, cwd=elsewhere, environment=clean) as terminal:
        terminal.wait_for("qwen3-0.6b")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


IMPORTED_AS = {"pynvml": "nvidia-ml-py"}
"""Packages whose modules have another name."""


def test_every_package_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = [requirement for name in ("gpu", "llamacpp") for requirement in project["optional-dependencies"][name]]
    requirements = [*project["dependencies"], *extra]
    declared = {requirement.split(">")[0].split("<")[0].split("=")[0] for requirement in requirements}
    imported = {root for path in modules() for root in imported_roots(path)}
    foreign = imported - set(sys.stdlib_module_names) - {"workbench"}
    assert {IMPORTED_AS.get(root, root) for root in foreign} <= declared
