// How far a call can be taken back, in a word; what that means, on demand.

import { CLASS_WORDS } from "../../client/undoWords";
import type { EffectClass } from "../../client/types";

export function ClassBadge({ of }: { of: EffectClass }) {
  const [name, meaning] = CLASS_WORDS[of];
  return (
    <span className="class-badge" data-class={of} title={meaning}>
      {name}
    </span>
  );
}
