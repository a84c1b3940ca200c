"""What a wheel holds beside the package's source: the migrations, and the built page.

For the page it runs npm where npm is; a built page that is not older than its sources stays.
Without npm the wheel takes the page as it finds it, and the build says so.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """The hook `custom` of pyproject.toml, for wheels; an editable install takes the tree as is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for name in ("migrations", "alembic.ini"):
            build_data["force_include"][name] = f"turnback/{name}"
        self.build_page()

    def build_page(self) -> None:
        panel = Path(self.root) / "panel"
        page = Path(self.root) / "src" / "turnback" / "panel" / "index.html"
        if is_fresh(page, panel):
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm is not here: the page in this wheel is missing or old")
            return
        commands = [["run", "build"]]
        if not (panel / "node_modules").is_dir():
            commands.insert(0, ["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        for command in commands:
            subprocess.run([npm, *command], cwd=panel, stdin=subprocess.DEVNULL, check=True)


def is_fresh(page: Path, panel: Path) -> bool:
    """Whether `page` is built and no source under `panel` is newer."""
    sources = (path for path in panel.rglob("*") if "node_modules" not in path.parts)
    return page.exists() and all(
        path.stat().st_mtime <= page.stat().st_mtime for path in sources if path.is_file()
    )
