// The changes of a revert that is looked at, to walk through by arrow keys: each shows its place.

import { useRef, useState } from "react";

import type { ListedChange } from "../../client/preview";
import { commentNodeId, MARK_WORDS } from "../canvas/flow";
import { MarkIcon } from "../canvas/MarkIcon";
import { moveFocus } from "../common/moveFocus";

/** Changes listed at first; a replaced workflow has thousands. */
const LISTED = 100;

export function ChangeList({
  changes,
  onShow,
}: {
  changes: readonly ListedChange[];
  onShow: (nodeId: string) => void;
}) {
  const list = useRef<HTMLUListElement>(null);
  const [stop, setStop] = useState(0);
  const [all, setAll] = useState(false);
  if (changes.length === 0) return <p className="hint">Nothing changes.</p>;
  const listed = all ? changes : changes.slice(0, LISTED);
  return (
    <>
      <ul
        className="changes"
        ref={list}
        onKeyDown={(event) => {
          if (moveFocus(event, list.current, ".change")) event.preventDefault();
        }}
      >
        {listed.map((change, index) => (
          <li key={change.key}>
            <button
              type="button"
              className="change"
              data-mark={change.mark}
              tabIndex={index === stop ? 0 : -1}
              onFocus={() => {
                setStop(index);
                show(change, onShow);
              }}
              onClick={() => show(change, onShow)}
            >
              <span className="change-mark">
                <MarkIcon mark={change.mark} />
              </span>
              <span className="change-words">
                <span dir="auto">{change.name}</span>
                <small>
                  {change.kind} {MARK_WORDS[change.mark]}
                </small>
                {change.properties.map((property) => (
                  <span className="change-property" key={property.name}>
                    {property.name}: <del>{property.before}</del> <ins>{property.after}</ins>
                  </span>
                ))}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {listed.length < changes.length && (
        <button type="button" className="link" onClick={() => setAll(true)}>
          Show all {changes.length}
        </button>
      )}
    </>
  );
}

function show({ at }: ListedChange, onShow: (nodeId: string) => void): void {
  if (at === null) return;
  onShow("operatorID" in at ? at.operatorID : commentNodeId(at));
}
