// In the composer's place for who may only read: why, and what they can do.

import { useCaller, writesInForks } from "../account/useCaller";
import { EyeIcon } from "../icons";

export function ReadOnlyNote({ mayFork }: { mayFork: boolean }) {
  const forks = writesInForks(useCaller());
  return (
    <p className="read-only" id="composer" tabIndex={-1}>
      <EyeIcon />
      <span>You may read this session, not write in it. {advice(mayFork, forks)}</span>
    </p>
  );
}

function advice(mayFork: boolean, writesInFork: boolean): string {
  if (!mayFork) return "Ask its owner to let you write, or to let you fork it.";
  if (writesInFork)
    return "Fork it at any turn to go on in a session of your own, or ask its owner to let you write.";
  return "You may fork it, but write in a fork only as an editor: ask an owner of the project to make you one.";
}
