"""REST, for scripts: the same commands, and the reads (protocol.md 3). One file per subject.

Bodies are snake_case, but for what speaks in frames: a command's body and its answer, and a
workflow, which is passed through as it is. `answer.snake` is the one place that renames.
"""

from __future__ import annotations

from fastapi import APIRouter, Depends

from turnback.api.rest import (
    attachments,
    commands,
    effects,
    forks,
    grants,
    keys,
    preview,
    roles,
    service,
    sessions,
    sign_in,
    steps,
    tickets,
    transcripts,
    undo_runs,
    undos,
    workflow,
)
from turnback.api.rest.request import known_query

router = APIRouter(dependencies=[Depends(known_query)])
for subject in (
    sessions,
    commands,
    steps,
    transcripts,
    workflow,
    preview,
    effects,
    undos,
    undo_runs,
    attachments,
    forks,
    grants,
    keys,
    roles,
    sign_in,
    tickets,
    service,
):
    router.include_router(subject.router)
