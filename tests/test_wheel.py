"""A wheel, built without a network, holds what the service needs and works where it lies."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from turnback.store.migrate import check_current

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "turnback" / "panel" / "index.html"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's files, as `pip install` would lay them out."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_a_wheel_holds_the_migrations_the_operator_types_and_the_overlays(installed: Path) -> None:
    package = installed / "turnback"
    migrations = {path.name for path in (ROOT / "migrations" / "versions").glob("*.py")}
    assert {path.name for path in (package / "migrations" / "versions").iterdir()} == migrations
    named = ("migrations/env.py", "alembic.ini", "core/operator_types.json")
    overlays = [path.name for path in (ROOT / "src/turnback/overlays").glob("*.yaml")]
    assert overlays
    for name in (*named, *(f"overlays/{overlay}" for overlay in overlays)):
        assert (package / name).is_file()


def test_a_wheel_holds_the_page_that_is_built(installed: Path) -> None:
    built = {path.relative_to(PAGE.parent) for path in PAGE.parent.rglob("*") if path.is_file()}
    held = installed / "turnback" / "panel"
    assert {path.relative_to(held) for path in held.rglob("*") if path.is_file()} == built


def test_an_installed_wheel_migrates_by_its_own_scripts(
    installed: Path, blank_database: str
) -> None:
    code = "import sys, turnback.store.migrate as m; m.migrate(sys.argv[1]); print(m.scripts())"
    done = python(installed, "-c", code, blank_database)
    assert Path(done.strip()) == installed / "turnback" / "migrations"
    check_current(blank_database)


def test_plain_alembic_migrates_from_an_installed_wheel(
    installed: Path, blank_database: str
) -> None:
    ini = str(installed / "turnback" / "alembic.ini")
    python(installed, "-m", "alembic", "-c", ini, "upgrade", "head", url=blank_database)
    check_current(blank_database)


def python(installed: Path, *arguments: str, url: str = "") -> str:
    """What Python prints with the wheel's files before the checkout's, far from the checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    environment |= {"PYTHONPATH": str(installed), "TURNBACK_DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
