"""Database URLs as people write them: one table, read by the driver itself."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.connect_utils import _parse_connect_arguments

from turnback.core.errors import SettingsInvalid
from turnback.store.url import asyncpg_dsn

TABLE = [
    ("postgresql://u:p@h:6000/d", "postgresql://u:p@h:6000/d"),
    ("  postgresql://u@h/d\n", "postgresql://u@h/d"),
    ("postgres://u:p%40ss@h/d", "postgresql://u:p%40ss@h/d"),
    ("postgresql+asyncpg://u@h/d", "postgresql://u@h/d"),
    ("postgresql+psycopg://u@h/d", "postgresql://u@h/d"),
    ("postgresql://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
    ("postgresql+asyncpg://u@h/d?ssl=verify-full", "postgresql://u@h/d?sslmode=verify-full"),
    ("postgresql://u@h/d?ssl=true", "postgresql://u@h/d?sslmode=require"),
    ("postgresql://u@h/d?ssl=false&sslmode=prefer", "postgresql://u@h/d?sslmode=prefer"),
    (
        "postgresql://u@h/d?sslmode=require&channel_binding=require&connect_timeout=5",
        "postgresql://u@h/d?sslmode=require",
    ),
    ("postgresql:///d?host=/socket/dir", "postgresql:///d?host=/socket/dir"),
    (
        "postgresql+asyncpg://u@/d?host=/with%20a%20space&port=5433",
        "postgresql://u@/d?host=/with%20a%20space&port=5433",
    ),
    ("postgresql://u@h1:1,h2:2/d", "postgresql://u@h1:1,h2:2/d"),
    ("postgresql://u@[::1]:5432/d", "postgresql://u@[::1]:5432/d"),
    (
        "postgresql://u@h/d?options=-c%20search_path%3Dx&application_name=a+b",
        "postgresql://u@h/d?options=-c%20search_path%3Dx&application_name=a%20b",
    ),
]


@pytest.mark.parametrize(("given", "dsn"), TABLE)
def test_a_url_is_rewritten_for_asyncpg(given: str, dsn: str) -> None:
    assert asyncpg_dsn(given) == dsn
    assert asyncpg_dsn(dsn) == dsn


def test_the_driver_reads_the_socket_the_names_and_the_settings() -> None:
    dsn = asyncpg_dsn("postgres://me%40x:p%2Fw@/d?host=/a%20b&port=6000&application_name=t")
    hosts, options, _ = parse(dsn)
    assert hosts == ["/a b/.s.PGSQL.6000"]
    assert (options.user, options.password, options.database) == ("me@x", "p/w", "d")
    assert options.server_settings == {"application_name": "t"}


@pytest.mark.parametrize("sslmode", ["disable", "prefer", "require"])
def test_the_driver_takes_each_sslmode(sslmode: str) -> None:
    _, options, _ = parse(asyncpg_dsn(f"postgresql+asyncpg://u@h/d?ssl={sslmode}"))
    assert options.sslmode is asyncpg.connect_utils.SSLMode.parse(sslmode)
    assert options.server_settings is None


@pytest.mark.parametrize(
    "given",
    ["", "mysql://u:secret@h/d", "u:secret@h/d", "postgresql://u:se#cret@h/d", "postgresql://[x/d"],
)
def test_what_is_no_postgresql_url_is_refused_without_being_quoted(given: str) -> None:
    with pytest.raises(SettingsInvalid, match="`TURNBACK_DATABASE_URL` must be") as refusal:
        asyncpg_dsn(given)
    assert "secret" not in refusal.value.message


def parse(dsn: str) -> tuple[list[object], asyncpg.connect_utils._ConnectionParameters, object]:
    """`dsn` as the driver's own parser reads it."""
    addresses, options, config = _parse_connect_arguments(
        dsn=dsn, host=None, port=None, user=None, password=None, passfile=None, database=None,
        command_timeout=None, statement_cache_size=100, max_cached_statement_lifetime=300,
        max_cacheable_statement_size=1024, ssl=None, direct_tls=None, server_settings=None,
        target_session_attrs=None, krbsrvname=None, gsslib=None, service=None, servicefile=None,
    )  # fmt: skip
    return addresses, options, config
