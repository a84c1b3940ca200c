"""Whether a call's arguments fit its tool's schema, before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import orjson
from jsonschema import Draft202012Validator, SchemaError

from turnback.core.contracts import secrets
from turnback.core.effects import Json
from turnback.core.errors import InvalidArguments
from turnback.core.values import shown
from turnback.tools.registry import Tool


def check_arguments(tool: Tool, args: Mapping[str, Json], *, hidden: bool = False) -> None:
    """Raise `InvalidArguments` where a tool's schema does not allow these.

    `hidden`: the arguments are without their secrets, of which nothing is said then.
    """
    validator = _validator(orjson.dumps(tool.schema).decode())
    if validator is None:
        return
    faults = validator.iter_errors(dict(args))
    fault = next((f for f in faults if not hidden or f.instance != secrets.HIDDEN), None)
    if fault is not None:
        path = "/" + "/".join(str(part) for part in fault.absolute_path)
        said = secrets.without_secrets(tool.contract, args, fault.message)
        raise InvalidArguments(
            f"The arguments do not fit `{tool.shown}`: {shown(said, limit=300)} "
            f"(at `{path}`). Nothing was done",
            path=path,
        )


@lru_cache(maxsize=1_000)
def _validator(schema: str) -> Draft202012Validator | None:
    parsed = orjson.loads(schema)
    try:
        Draft202012Validator.check_schema(parsed)
    except SchemaError:
        return None  # its server judges by itself
    return Draft202012Validator(parsed)
