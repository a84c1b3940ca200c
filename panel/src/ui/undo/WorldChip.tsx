// What the model was told with a message: what stood outside otherwise than the conversation had it.

import type { Step } from "../../client/types";
import { counted } from "../../client/words";
import { clock } from "../time";
import { StandingBadge } from "./StandingBadge";

type Entry = NonNullable<Step["world"]>[number];

export function WorldChip({ entries }: { entries: readonly Entry[] }) {
  return (
    <details className="world-chip">
      <summary>The agent was told of {counted(entries.length, "effect")} outside</summary>
      <ul>
        {entries.map((entry) => (
          <li key={entry.effectId}>
            <code>{entry.tool}</code> <bdi>{entry.things.join(", ")}</bdi>{" "}
            {entry.people > 0 && `to ${entry.people} ${entry.people === 1 ? "person" : "people"}, `}
            {clock(entry.at)} <StandingBadge standing={entry.standing} />
          </li>
        ))}
      </ul>
    </details>
  );
}
