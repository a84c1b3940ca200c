"""Altering tables that are large and in use: for the scripts in `migrations/versions` alone.

An ALTER waits for whoever reads the table, and everyone who comes later waits for it. So it waits
`LOCK_WAIT` at a time, lets the others through, and tries again; one that finds no moment in `TRIES`
changes nothing. What has to look at every row (`validate constraint`) lets others read and write,
and stands by itself.
"""

from __future__ import annotations

from alembic import op

LOCK_WAIT = "1s"
PAUSE = 0.5  # seconds
TRIES = 60

PATIENTLY = """do $patiently$ declare was text := current_setting('lock_timeout'); begin
    for n in 1..{tries} loop
        begin
            perform set_config('lock_timeout', '{wait}', true);
            {statement};
            perform set_config('lock_timeout', was, true);
            return;
        exception when lock_not_available then
            if n = {tries} then raise; end if;
        end;
        perform pg_sleep({pause});
    end loop;
end $patiently$"""


def patiently(statement: str) -> None:
    """Run a statement that takes a lock which nobody else can share, and no other.

    One statement of the database's own, which is the same in the SQL that `alembic --sql` writes;
    a try that was in vain leaves no lock.
    """
    op.execute(PATIENTLY.format(statement=statement, tries=TRIES, wait=LOCK_WAIT, pause=PAUSE))
