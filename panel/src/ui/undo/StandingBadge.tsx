// Where an effect stands in the world, wherever HEAD is; and until when it is not sent yet.

import { STANDING_WORDS } from "../../client/undoWords";
import type { Standing } from "../../client/types";
import { full, toSecond } from "../time";

export function StandingBadge({
  standing,
  count,
  out = false,
  heldUntil = null,
}: {
  standing: Standing;
  /** How many stand so, where it speaks of several. */
  count?: number;
  /** It stands although the conversation no longer has it. */
  out?: boolean;
  /** When it is sent, while it is held back. */
  heldUntil?: number | null;
}) {
  if (heldUntil !== null) {
    return (
      <span
        className="standing-badge"
        data-standing="held"
        title={`It is sent at ${full(heldUntil)}, unless it is cancelled before`}
      >
        held until {toSecond(heldUntil)}
      </span>
    );
  }
  return (
    <span className="standing-badge" data-standing={standing} data-out={out || undefined}>
      {count !== undefined && `${count} `}
      {out && "still "}
      {STANDING_WORDS[standing]}
    </span>
  );
}
