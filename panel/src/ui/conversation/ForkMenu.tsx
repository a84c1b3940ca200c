// From a turn to a session of one's own: which side of it goes along, and whether its message is sent
// again there.

import type { ForkRequest } from "../../client/forks";
import type { Turn } from "../../client/paths";
import { promptText } from "../../client/paths";
import { counted, firstWords } from "../../client/words";
import { useCaller, writesInForks } from "../account/useCaller";
import { Menu, type MenuItem } from "../common/Menu";
import { ForkIcon, PencilIcon, RedoIcon } from "../icons";

export function ForkMenu({
  turn,
  running,
  blocked,
  writable,
  onFork,
}: {
  turn: Turn;
  running: boolean;
  /** Why this turn cannot be forked from at all. */
  blocked: string | null;
  /** The reader may write in this session, and so in what it forks from it. */
  writable: boolean;
  onFork: (request: ForkRequest) => void;
}) {
  const sends = writesInForks(useCaller()) || writable;
  const unsendable = blocked ?? (sends ? null : "You may fork, not write in the fork");
  const words = firstWords(promptText(turn));
  // A fork reads the files of what it inherits, and this message is not among it.
  const files = turn.prompt?.attachments?.length ?? 0;
  const without = files === 0 ? "" : `; without its ${counted(files, "file")}, to be attached again`;
  const at = (position: "before" | "after") => ({ turn_id: turn.id, position });
  const items: MenuItem[] = [
    {
      label: "Fork after this turn",
      detail: "A session of its own that goes on from here",
      icon: <ForkIcon />,
      blocked: blocked ?? unfinished(turn, running),
      onSelect: () => onFork({ boundary: at("after") }),
    },
    {
      label: "Fork before this turn",
      detail: "Everything up to here, and not this",
      icon: <ForkIcon />,
      blocked,
      onSelect: () => onFork({ boundary: at("before") }),
    },
  ];
  if (turn.prompt?.kind === "prompt") {
    items.push(
      {
        label: "Edit in a fork",
        detail: `Fork before it, with its message to be changed${without}`,
        icon: <PencilIcon />,
        blocked: unsendable,
        onSelect: () => onFork({ boundary: at("before"), mode: "edit" }),
      },
      {
        label: "Run again in a fork",
        detail: `Fork before it, with its message to be sent again${without}`,
        icon: <RedoIcon />,
        blocked: unsendable,
        onSelect: () => onFork({ boundary: at("before"), mode: "rerun" }),
      },
    );
  }
  return (
    <Menu
      label={`Fork from “${words}”`}
      title="Fork from here"
      className="button icon-only quiet small"
      trigger={<ForkIcon />}
      items={items}
    />
  );
}

/** Why nothing can go on after this turn; null where it is whole. */
function unfinished(turn: Turn, running: boolean): string | null {
  if (running) return "This turn is still running";
  const last = turn.steps.at(-1) ?? turn.prompt;
  const whole = last?.isEnd === true && (turn.steps.length > 0 || last.kind === "edit");
  return whole ? null : "The conversation leaves this turn in its middle";
}
