// What a person wrote: whole where it is short, and its beginning with its size where it is long.

import { useState } from "react";

import { inBytes } from "../../client/words";
import { inline } from "./Prose";

/** Characters shown of a longer text. */
const SHOWN = 1_500;

export function LongText({
  text,
  className,
  marked,
}: {
  text: string;
  className: string;
  /** Its marks are ours, and are drawn; a person's own words stay as they are. */
  marked: boolean;
}) {
  const [whole, setWhole] = useState(false);
  const long = text.length > SHOWN + SHOWN / 4;
  return (
    <div className={className} dir="auto">
      {long && !whole && `${text.slice(0, SHOWN)}…`}
      {long && whole && pieces(text).map((piece, index) => <span key={index}>{piece}</span>)}
      {!long && (marked ? inline(text) : text)}
      {long && (
        <button
          type="button"
          className="link show-all"
          aria-expanded={whole}
          onClick={() => setWhole(!whole)}
        >
          {whole ? "Show the beginning only" : `Show all, ${inBytes(text.length)}`}
        </button>
      )}
    </div>
  );
}

/** A browser breaks lines in pieces much faster than in one endless word. */
const PIECE = 1_000;

function pieces(text: string): string[] {
  const count = Math.ceil(text.length / PIECE);
  return Array.from({ length: count }, (_, at) => text.slice(at * PIECE, (at + 1) * PIECE));
}
