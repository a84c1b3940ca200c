"""What the contracts of one server may not say of each other, and which of its tools they call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from turnback.core.contracts.model import Case, Contract, InverseCall
from turnback.core.effects import EffectClass


def server_contradictions(
    contracts: Mapping[str, Contract], *, tools: Collection[str] | None = None
) -> Iterator[tuple[str, str]]:
    """What contradicts itself among the contracts of one server: the tool, and the reason.

    `tools` are those that the server has, where that is known.
    """
    for tool, contract in contracts.items():
        for resource in contract.resources.values():
            if resource.read is not None:
                reads = contracts.get(resource.read.call)
                if reads is not None and not reads.only_reads:
                    yield (
                        tool,
                        f"a resource is read by `{resource.read.call}`, which changes something:"
                        " read it by a tool whose only class is `read`",
                    )
        for case in contract.cases:
            for call in case.inverse:
                yield from ((tool, reason) for reason in _inverse_of(contracts, case, call))
        if contract.find is not None:
            looks = contracts.get(contract.find.call)
            if looks is not None and not looks.only_reads:
                yield tool, f"`find` calls `{contract.find.call}`, which changes something"
        if tools is not None:
            for name in called(contract):
                if name not in tools:
                    yield tool, f"it calls `{name}`, which its server does not have"


def read_by(contracts: Collection[Contract]) -> frozenset[str]:
    """The tools by which contracts read and look up: they say of those that they change nothing."""
    names = {
        resource.read.call
        for contract in contracts
        for resource in contract.resources.values()
        if resource.read is not None
    }
    return frozenset(names | {one.find.call for one in contracts if one.find is not None})


def called(contract: Contract) -> frozenset[str]:
    """The tools that a contract's reads, inverses, look-ups and cancels call."""
    names = {r.read.call for r in contract.resources.values() if r.read is not None}
    for case in contract.cases:
        names |= {call.call for call in case.inverse}
        names |= {case.cancel.call} if case.cancel is not None else set()
        names |= set(case.agentic.tools) if case.agentic is not None else set()
    return frozenset(names | ({contract.find.call} if contract.find is not None else set()))


def _inverse_of(contracts: Mapping[str, Contract], case: Case, call: InverseCall) -> Iterator[str]:
    other = contracts.get(call.call)
    if other is None:
        return
    if other.only_reads:
        yield f"its inverse calls `{call.call}`, which is declared to change nothing"
    tells = bool(other.notifies) or any(one.notifies for one in other.cases)
    if tells and case.class_ is EffectClass.REVERSIBLE:
        yield (
            f"it is `reversible`, and its inverse `{call.call}` notifies people: make it"
            " `compensable` and name its `residue`"
        )
