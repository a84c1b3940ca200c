// Lines that go on from HEAD: shown when the conversation stands where they part.

import type { Fork } from "../../client/paths";
import { SwitchIcon } from "../icons";
import { firstWords } from "../../client/words";
import { lineDetail } from "./BranchPicker";

export function OpenEnds({
  fork,
  blocked,
  onCheckout,
}: {
  fork: Fork;
  blocked: string | null;
  onCheckout: (stepId: string) => void;
}) {
  return (
    <div className="open-ends">
      <p>
        <SwitchIcon />
        {fork.lines.length} lines go on from here
      </p>
      <ul>
        {fork.lines.map((line) => (
          <li key={line.stepId}>
            <button
              type="button"
              className="link"
              disabled={blocked !== null}
              title={blocked ?? undefined}
              onClick={() => onCheckout(line.tip)}
            >
              {firstWords(line.content)}
            </button>
            <span className="made">{lineDetail(line)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
