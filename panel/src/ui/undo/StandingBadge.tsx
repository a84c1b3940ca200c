// Where an effect stands in the world, wherever HEAD is.

import { STANDING_WORDS } from "../../client/undoWords";
import type { Standing } from "../../client/types";

export function StandingBadge({ standing }: { standing: Standing }) {
  return (
    <span className="standing-badge" data-standing={standing}>
      {STANDING_WORDS[standing]}
    </span>
  );
}
