// Where lines part: which one is shown, its neighbours, and all of them in a menu.

import type { Fork, Line } from "../../client/paths";
import { counted, firstWords } from "../../client/words";
import { Action } from "../common/Action";
import { Menu } from "../common/Menu";
import { CheckIcon, LeftIcon, RightIcon, SwitchIcon } from "../icons";
import { ago } from "../time";

export function lineDetail(line: Line): string {
  return `${counted(line.turns, "turn")}, ${ago(new Date(line.at), new Date())}`;
}

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
  const count = fork.lines.length;
  const button = (to: number, label: string, none: string, symbol: React.ReactNode) => {
    const line = fork.lines[to];
    const name = line ? `${label}: ${firstWords(line.content)}` : label;
    return (
      <Action
        className="button icon-only quiet small"
        label={name}
        title={name}
        blocked={line === undefined ? none : blocked}
        onAct={() => line && onCheckout(line.tip)}
      >
        {symbol}
      </Action>
    );
  };
  return (
    <div
      className="branch-picker"
      role="group"
      aria-label="Lines part here"
      data-fork={fork.parentId}
    >
      <SwitchIcon />
      {button(at - 1, "Earlier line", "This is the earliest line", <LeftIcon />)}
      <Menu
        label={`Line ${at + 1} of ${count}. Choose a line`}
        className="branch-count"
        trigger={
          <span>
            {at + 1} of {count}
          </span>
        }
        items={fork.lines.map((line) => ({
          key: line.stepId,
          label: firstWords(line.content),
          detail: lineDetail(line),
          checked: line.stepId === shown,
          blocked: line.stepId === shown ? null : blocked,
          icon: line.stepId === shown ? <CheckIcon /> : <span className="icon" />,
          onSelect: () => {
            if (line.stepId !== shown) onCheckout(line.tip);
          },
        }))}
      />
      {button(at + 1, "Later line", "This is the latest line", <RightIcon />)}
    </div>
  );
}
