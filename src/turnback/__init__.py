"""Turnback: a self-hosted agent service whose agent turns can be taken back truthfully."""

import sys

__version__ = "0.1.0"

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on the path is not installed by pip
    raise SystemExit(
        f"turnback: needs Python 3.11 or newer, and this is {sys.version.split()[0]}: make an"
        " environment with a newer one"
    )
