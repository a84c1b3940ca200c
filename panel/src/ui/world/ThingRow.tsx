// One thing of the demo world: its fields to change, and its deleting.

import { useId, useRef, useState } from "react";

import {
  changesOf,
  changeThing,
  deleteThing,
  fieldLabel,
  lineOf,
  makeThing,
  told,
  type Part,
} from "../../client/world";
import { TrashIcon } from "../icons";
import type { Kept } from "./useWorld";

export function ThingRow({
  part,
  thing,
  onChanged,
  onDeleted,
  say,
  fail,
}: {
  part: Part;
  thing: Kept;
  onChanged: () => void;
  onDeleted: (thing: Kept) => void;
  /** Tells a screen reader what has been done. */
  say: (text: string) => void;
  fail: (error: unknown) => void;
}) {
  const [written, setWritten] = useState<Readonly<Record<string, string>>>({});
  const summary = useRef<HTMLElement>(null);
  const wrong = useId();
  const { kind } = part;
  const { id, fields, gone } = thing;
  const changes = changesOf(fields, written);
  const nothing = changes !== null && Object.keys(changes).length === 0;

  // What was pressed may be gone with what it did, so the focus goes to the thing.
  const act = (done: Promise<void>, text: string, then: () => void) => {
    summary.current?.focus();
    done.then(() => {
      setWritten({});
      say(text);
      then();
    }, fail);
  };
  const save = () => {
    if (changes !== null && !nothing) act(changeThing(kind, id, changes), "Saved.", onChanged);
  };

  return (
    <details className="thing" data-gone={gone || undefined}>
      <summary ref={summary}>
        <bdi>{lineOf(part, thing)}</bdi>
        {gone && <small> deleted</small>}
      </summary>
      {part.fixed ? (
        <dl className="thing-body">
          {Object.entries(fields).map(([name, value]) => (
            <div key={name}>
              <dt>{fieldLabel(name)}</dt>
              <dd dir="auto">{told(value)}</dd>
            </div>
          ))}
        </dl>
      ) : gone ? (
        <div className="thing-body">
          <button
            type="button"
            className="button small"
            onClick={() => act(makeThing(kind, thing), "Made again.", onChanged)}
          >
            Make it again
          </button>
        </div>
      ) : (
        <form
          className="thing-body"
          onSubmit={(event) => {
            event.preventDefault();
            save();
          }}
        >
          {Object.entries(fields).map(([name, value]) => (
            <label key={name}>
              {fieldLabel(name)}
              <input
                dir="auto"
                value={written[name] ?? told(value)}
                aria-describedby={changes === null ? wrong : undefined}
                onChange={(event) => {
                  const text = event.currentTarget.value;
                  setWritten((now) => ({ ...now, [name]: text }));
                }}
              />
            </label>
          ))}
          <p className="thing-wrong" id={wrong} role="status">
            {changes === null ? "One of the values is not of the form that its field has." : ""}
          </p>
          <div className="actions start">
            <button
              type="submit"
              className="button small"
              aria-disabled={nothing || changes === null || undefined}
            >
              Save
            </button>
            <button
              type="button"
              className="button small danger quiet"
              onClick={() => act(deleteThing(kind, id), "Deleted.", () => onDeleted(thing))}
            >
              <TrashIcon />
              Delete
            </button>
          </div>
        </form>
      )}
    </details>
  );
}
