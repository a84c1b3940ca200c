"""The database of the settings, at the migration that this version serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from turnback.settings import Settings
from turnback.store.embedded import Embedded
from turnback.store.migrate import check_current, migrate


@contextmanager
def database(settings: Settings) -> Iterator[tuple[str, Embedded | None]]:
    """The URL of a database at the newest migration; and its server, if that is the embedded one.

    The embedded database is migrated. One that the settings name is not ours to change: a stale
    one raises `SchemaMismatch`, with the command to run. Raises `EmbeddedUnavailable` and
    `DatabaseUnavailable` too.
    """
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        check_current(url)
        yield url, None
        return
    with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
        migrate(embedded.url, timeout=settings.migrate_timeout)
        yield embedded.url, embedded
