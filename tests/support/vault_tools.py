"""Tools of a test whose arguments, results and states are secret: accounts are files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outside_tools import arrived, behaves

from turnback.core.contracts.builder import args, before, key, now, result
from turnback.tools.decorator import tool


@tool(contract={"cases": [{"class": "read"}], "secret": [result.password]})
def get_account(id: str) -> dict[str, Any]:
    """Read an account."""
    arrived(id, "get_account")
    return dict(json.loads(Path(id).read_text()))


@tool(
    contract={
        "resources": {
            "account": {
                "key": ["id"],
                "read": {"call": "get_account", "args": {"id": key.id}},
                "state": {"password": now.password},
                "secret": ["password"],
            }
        },
        "touches": [{"account": {"id": args.id}}],
        "secret": [args.password, result.token],
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {
                        "call": "set_password",
                        "args": {"id": args.id, "password": before.account[0].password},
                    }
                ],
            }
        ],
    }
)
async def set_password(id: str, password: str) -> dict[str, Any]:
    """Give an account another password."""
    arrived(id, "set_password")
    account = Path(id)

    def act() -> None:
        if (account.parent / "quotes").exists():
            raise RuntimeError(f"the password {password!r} is too well known")
        account.write_text(json.dumps({"password": password}))

    await behaves(id, act)
    return {"token": f"token-of-{password}", "changed": True}
