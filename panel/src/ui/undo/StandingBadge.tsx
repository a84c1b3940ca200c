// Where an effect stands in the world, wherever HEAD is.

import { STANDING_WORDS } from "../../client/undoWords";
import type { Standing } from "../../client/types";

export function StandingBadge({
  standing,
  count,
  out = false,
}: {
  standing: Standing;
  /** How many stand so, where it speaks of several. */
  count?: number;
  /** It stands although the conversation no longer has it. */
  out?: boolean;
}) {
  return (
    <span className="standing-badge" data-standing={standing} data-out={out || undefined}>
      {count !== undefined && `${count} `}
      {out && "still "}
      {STANDING_WORDS[standing]}
    </span>
  );
}
