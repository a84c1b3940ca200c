// The demo world beside the conversation: short lists of what is in it, which a person may change.
// It is no dialog: what the agent does is watched while it is open.

import { useEffect, useRef, useState } from "react";

import type { SessionState } from "../../client/reducer";
import { PARTS } from "../../client/world";
import { CloseButton } from "../common/CloseButton";
import { useReturnFocus } from "../common/useReturnFocus";
import { ThingRow } from "./ThingRow";
import { useWorld } from "./useWorld";

export function WorldPanel({
  state,
  fail,
  onClose,
}: {
  state: SessionState;
  fail: (error: unknown) => void;
  onClose: () => void;
}) {
  const { world, problem, things, changed, deleted } = useWorld(state);
  const [said, setSaid] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  useReturnFocus();
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);

  return (
    <aside
      className="world floating"
      aria-labelledby="world-heading"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        onClose();
      }}
    >
      <div className="world-head">
        <h2 id="world-heading" ref={heading} tabIndex={-1}>
          Demo world
        </h2>
        <CloseButton label="Close the demo world" onClose={onClose} />
      </div>
      <div className="world-body">
        <p className="world-note">
          Nobody’s mailbox, calendar and so on. What you change here, you change as somebody outside
          would: no turn knows of it.
        </p>
        {problem !== null && <p className="note warn">{problem.message}</p>}
        {world === null && problem === null && <p>Loading</p>}
        {world !== null &&
          PARTS.map((part) => {
            const listed = things(part.kind);
            return (
              <section key={part.kind} data-kind={part.kind} aria-label={part.heading}>
                <h3>
                  {part.heading} <small>({world[part.kind]?.length ?? 0})</small>
                </h3>
                {listed.length > 0 && (
                  <ul>
                    {listed.map((thing) => (
                      <li key={thing.id}>
                        <ThingRow
                          part={part}
                          thing={thing}
                          onChanged={changed}
                          onDeleted={(it) => deleted(part.kind, it)}
                          say={setSaid}
                          fail={fail}
                        />
                      </li>
                    ))}
                  </ul>
                )}
              </section>
            );
          })}
      </div>
      <p className="sr-only" role="status">
        {said}
      </p>
    </aside>
  );
}
