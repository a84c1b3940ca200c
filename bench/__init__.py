"""Measurements: what the service takes, as ratios to floors taken in the same run.

`make bench` runs them all; see `docs/performance.md`.
"""
