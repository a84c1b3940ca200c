// Left of a row: its lane with its stop on it, and the lanes that pass. Drawn in pixels across and in
// per cent down, for rows are as high as what they say.

import type { HistoryRow } from "../../client/history";

/** Pixels between two lanes, and from the edge to the first. */
const LANE = 18;
const EDGE = 13;
/** Pixels from a row's top to the middle of its stop. */
const STOP = 19;
/** Lanes beyond this one lie on it: deeper still there is no room. */
const DEEPEST = 6;

const x = (lane: number) => EDGE + Math.min(lane, DEEPEST) * LANE;

export function RailMark({ row, width }: { row: HistoryRow; width: number }) {
  const { rail, kind, turn } = row;
  const at = x(rail.lane);
  const small = kind === "step" || kind === "open";
  const left = x(rail.lane - 1);
  return (
    <svg
      className="rail"
      width={railWidth(width)}
      height="100%"
      aria-hidden="true"
      focusable="false"
      data-on-path={rail.onPath || undefined}
    >
      {rail.through.map((lane) => (
        <line key={lane} className="rail-other" x1={x(lane)} x2={x(lane)} y1="0" y2="100%" />
      ))}
      {rail.from === "above" && <line x1={at} x2={at} y1="0" y2={STOP} />}
      {rail.from === "left" && (
        <path d={`M${left} 0C${left} ${STOP / 2} ${at} 2 ${at} ${STOP}`} fill="none" />
      )}
      {rail.goesOn && <line x1={at} x2={at} y1={STOP} y2="100%" />}
      <circle
        className={turn.hasHead && !small ? "is-head" : undefined}
        cx={at}
        cy={STOP}
        r={small ? 3.5 : 5.5}
        data-open={kind === "open" || kind === "earlier" || undefined}
      />
    </svg>
  );
}

/** The pixels that so many lanes take. */
export function railWidth(lanes: number): number {
  return x(lanes - 1) + EDGE;
}
