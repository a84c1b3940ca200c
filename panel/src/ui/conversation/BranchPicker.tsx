// Where lines part: which one is shown, and the way to its neighbours.

import type { Fork } from "../../client/paths";
import { LeftIcon, RightIcon, SwitchIcon } from "../icons";
import { firstWords } from "../../client/words";

export function BranchPicker({
  fork,
  shown,
  blocked,
  onCheckout,
}: {
  fork: Fork;
  /** The step by which the visible path leaves the fork. */
  shown: string;
  blocked: string | null;
  onCheckout: (stepId: string) => void;
}) {
  const at = fork.lines.findIndex((line) => line.stepId === shown);
  const button = (to: number, label: string, symbol: React.ReactNode) => {
    const line = fork.lines[to];
    const name = line ? `${label}: ${firstWords(line.content)}` : label;
    return (
      <button
        type="button"
        className="button icon-only quiet small"
        aria-label={name}
        title={blocked ?? name}
        disabled={blocked !== null || line === undefined}
        onClick={() => line && onCheckout(line.tip)}
      >
        {symbol}
      </button>
    );
  };
  return (
    <div className="branch-picker" role="group" aria-label="Lines part here">
      <SwitchIcon />
      {button(at - 1, "Earlier line", <LeftIcon />)}
      <span className="branch-count">
        {at + 1}/{fork.lines.length}
      </span>
      {button(at + 1, "Later line", <RightIcon />)}
    </div>
  );
}
