// Over a fork's conversation: which session it comes from, with the way to the place.

import { counted, firstWords } from "../../client/words";
import type { Turn } from "../../client/paths";
import { PageLink } from "../common/PageLink";
import { ForkIcon } from "../icons";
import { sessionPath } from "../router";
import type { Origin } from "./useOrigin";

export function OriginLine({ origin, turns }: { origin: Origin; turns: readonly Turn[] }) {
  const { lineage, parent } = origin;
  const count = lineage.inherited_turn_count;
  return (
    <p className="origin">
      <ForkIcon />
      <span>
        Forked from {parentWords(origin)}
        {count === 0 ? ", before its first turn" : `, with ${counted(count, "turn")}`}
        {lastWords(origin, turns)}.{" "}
        {parent !== null && !parent.deleted && (
          <PageLink className="link" to={sessionPath(parent.session_id, lineage.cutoff_id)}>
            See the place
          </PageLink>
        )}
      </span>
    </p>
  );
}

function parentWords({ parent }: Origin) {
  if (parent === null) return "a session that you may not read";
  if (parent.deleted || parent.name === null) return "a session that was deleted";
  return (
    <PageLink className="link" to={sessionPath(parent.session_id)}>
      <bdi>{parent.name}</bdi>
    </PageLink>
  );
}

/** Which turn was the last that came along, where this page has it. */
function lastWords({ lineage }: Origin, turns: readonly Turn[]): string {
  const last = turns.find(
    (turn) => [turn.prompt, ...turn.steps].at(-1)?.id === lineage.cutoff_id,
  );
  return last?.prompt ? `, up to “${firstWords(last.prompt.content)}”` : "";
}
