"""The same work by others, in the same run and the same PostgreSQL, each in a process of its own.

They live in an environment beside this file, of locked versions; where it cannot be installed, they
are left out and the run says so.
"""
