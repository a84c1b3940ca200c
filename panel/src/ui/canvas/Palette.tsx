// The palette: find an operator type and put one on the canvas, by click, by Enter or by dragging.

import { useEffect, useMemo, useRef, useState } from "react";

import type { OperatorType } from "../../client/types";
import { CloseButton } from "../common/CloseButton";
import { moveFocus } from "../common/moveFocus";
import { useReturnFocus } from "../common/useReturnFocus";
import { SearchIcon } from "../icons";
import { Glyph } from "./Glyph";
import { lineOf } from "./lines";

export const DRAGGED_TYPE = "application/x-turnback-operator";

export function Palette({
  types,
  problem,
  onAdd,
  onClose,
}: {
  types: OperatorType[] | null;
  problem: string | null;
  onAdd: (type: OperatorType) => void;
  onClose: () => void;
}) {
  const [query, setQuery] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useReturnFocus();
  useEffect(() => field.current?.focus(), []);

  const groups = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    const found = (types ?? []).filter((type) =>
      `${type.label} ${type.type} ${type.group} ${type.description}`.toLowerCase().includes(wanted),
    );
    // A name that begins with what was typed comes before a description that contains it.
    const first = (type: OperatorType) =>
      wanted !== "" && type.label.toLowerCase().startsWith(wanted) ? 0 : 1;
    const grouped = new Map<string, OperatorType[]>();
    for (const type of found.toSorted((a, b) => first(a) - first(b))) {
      grouped.set(type.group, [...(grouped.get(type.group) ?? []), type]);
    }
    return grouped;
  }, [types, query]);

  // Who types faster than the types come has their Enter kept for the first that is found.
  const [entered, setEntered] = useState(false);
  const best = groups.values().next().value?.[0];
  useEffect(() => {
    if (!entered || types === null) return;
    setEntered(false);
    if (best) onAdd(best);
  }, [entered, types, best, onAdd]);
  return (
    <div
      className="palette floating"
      ref={list}
      role="dialog"
      aria-label="Add an operator"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        else if (!moveFocus(event, list.current, "input, .palette-item")) return;
        event.stopPropagation();
        event.preventDefault();
      }}
    >
      <div className="palette-head">
        <label className="search">
          <SearchIcon />
          <input
            ref={field}
            type="search"
            placeholder="Find an operator"
            aria-label="Find an operator"
            value={query}
            onChange={(event) => {
              setQuery(event.currentTarget.value);
              setEntered(false);
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter") setEntered(true);
            }}
          />
        </label>
        <CloseButton onClose={onClose} />
      </div>
      <div className="palette-list">
        {problem !== null && <p className="palette-note">{problem}</p>}
        {types !== null && groups.size === 0 && (
          <p className="palette-note">No operator matches “{query.trim()}”.</p>
        )}
        {[...groups].map(([group, members]) => (
          <section key={group}>
            <h2>{group}</h2>
            {members.map((type) => (
              <button
                type="button"
                key={type.type}
                className="palette-item"
                data-line={lineOf(type.type)}
                draggable
                onDragStart={(event) => {
                  event.dataTransfer.setData(DRAGGED_TYPE, type.type);
                  event.dataTransfer.effectAllowed = "copy";
                }}
                onClick={() => onAdd(type)}
              >
                <span className="disc small">
                  <Glyph type={type.type} />
                </span>
                <span>
                  {type.label}
                  <small>{type.description}</small>
                </span>
              </button>
            ))}
          </section>
        ))}
      </div>
    </div>
  );
}
