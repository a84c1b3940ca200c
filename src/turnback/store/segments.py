"""The walk along a path: the one SQL fragment that says which records lie on the way to a HEAD.

A branch's row lists the newest segments of its path and names the row below that goes on, so the
walk is one recursive step per row (lineage.md 2). Rows that do not lead down end it: what is then
missing is found by whoever counts.

A row is looked up in a subquery of its own (`offset 0`), so that no plan joins all branches of the
family: one that was made while they were few would be kept.
"""

from __future__ import annotations

_SEGMENTS = """with recursive chain(src, lo, hi, below, bound) as (
    select src, lo, hi, below, {seq} from branches where root_id = $1::uuid and id = {branch}
    union all
    select b.src, b.lo, b.hi, b.below, chain.lo[1] from chain
    cross join lateral (select src, lo, hi, below from branches
        where root_id = $1::uuid and id = chain.below offset 0) b
    where chain.lo[1] > {after} and b.lo[1] < chain.lo[1]),
segments as (
    select k.src, greatest(k.lo, {after}) as lo, least(k.hi, chain.bound, {until}) as hi
    from chain cross join lateral unnest(chain.src, chain.lo, chain.hi) k(src, lo, hi)
    where k.lo < least(chain.bound, {until}) and k.hi > {after})"""


def segments(*, branch: str, seq: str, after: str, until: str) -> str:
    """`with` the disjoint `segments (src, lo, hi)` of the positions `after < seq <= until` at a
    HEAD, which is the record `seq` of `branch`; `$1` is the root. All four are SQL expressions.
    """
    return _SEGMENTS.format(branch=branch, seq=seq, after=after, until=until)
