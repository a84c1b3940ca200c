// In the composer's place for who may only read: why, and what they can do.

import { EyeIcon } from "../icons";

export function ReadOnlyNote({ mayFork }: { mayFork: boolean }) {
  return (
    <p className="read-only" id="composer" tabIndex={-1}>
      <EyeIcon />
      <span>
        You may read this session, not write in it.{" "}
        {mayFork
          ? "Fork it at any turn to go on in a session of your own, or ask its owner to let you write."
          : "Ask its owner to let you write, or to let you fork it."}
      </span>
    </p>
  );
}
