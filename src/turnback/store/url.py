"""Database URLs as people write them, for the driver that we use."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from turnback.core.errors import SettingsInvalid

# libpq's own: asyncpg has no counterpart, and would hand them to the server as unknown settings.
_LIBPQ_ONLY = frozenset(
    [
        "channel_binding",
        "connect_timeout",
        "fallback_application_name",
        "gssdelegation",
        "gssencmode",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "require_auth",
        "requirepeer",
        "requiressl",
        "sslcertmode",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
    ]
)
_FORM = (
    "`TURNBACK_DATABASE_URL` must be a PostgreSQL URL: `postgresql://user:password@host/database`,"
    " with other characters in its parts written as `%` and two hex digits"
)
_BOOLEAN_SSL = {"true": "require", "1": "require", "false": "disable", "0": "disable"}


def asyncpg_dsn(url: str) -> str:
    """Any PostgreSQL URL, as `asyncpg.connect(dsn)` understands it.

    Takes `postgres://`, `postgresql://` and SQLAlchemy's `postgresql+driver://`; hosts in the
    authority or as `?host=/socket/dir`; TLS as `sslmode` (libpq) or `ssl` (SQLAlchemy). What only
    libpq knows is left out. Raises `SettingsInvalid` for anything else, without quoting the URL,
    which may hold a password.
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError as error:
        raise SettingsInvalid(_FORM) from error
    # A fragment is a `#` of a password that should have been written `%23`.
    if parts.scheme.partition("+")[0] not in ("postgres", "postgresql") or parts.fragment:
        raise SettingsInvalid(_FORM)
    query = {key: value for key, value in parse_qsl(parts.query) if key not in _LIBPQ_ONLY}
    if (ssl := query.pop("ssl", None)) is not None:
        query.setdefault("sslmode", _BOOLEAN_SSL.get(ssl.lower(), ssl))
    options = urlencode(query, safe="/", quote_via=quote)
    return f"postgresql://{parts.netloc}{parts.path}" + (f"?{options}" if options else "")
