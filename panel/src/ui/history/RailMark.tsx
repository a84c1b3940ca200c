// Left of a row: its lane with its stop on it, and the lanes that pass. Drawn in pixels across and in
// per cent down, for rows are as high as what they say.

import type { HistoryRow } from "../../client/history";

/** Pixels between two lanes, and from the edge to the first. */
const LANE = 18;
const EDGE = 13;
/** Pixels from a row's top to the middle of its stop: of a turn, and of a step. */
const STOPS = [19, 16] as const;
/** Lanes beyond this one lie on it: deeper still there is no room. */
const DEEPEST = 6;

const x = (lane: number) => EDGE + Math.min(lane, DEEPEST) * LANE;

export function RailMark({ row, width }: { row: HistoryRow; width: number }) {
  const { rail, kind, turn } = row;
  const at = x(rail.lane);
  const small = kind === "step" || kind === "open";
  const own = rail.onPath ? "is-on-path" : undefined;
  const left = x(rail.lane - 1);
  const stop = STOPS[small ? 1 : 0];
  return (
    <svg
      className="rail"
      width={railWidth(width)}
      height="100%"
      aria-hidden="true"
      focusable="false"
    >
      {rail.through.map(({ lane, onPath }) => (
        <line
          key={lane}
          className={onPath ? "is-on-path" : undefined}
          x1={x(lane)}
          x2={x(lane)}
          y1="0"
          y2="100%"
        />
      ))}
      {rail.from === "above" && <line className={own} x1={at} x2={at} y1="0" y2={stop} />}
      {rail.from === "left" && (
        <path className={own} d={`M${left} 0C${left} ${stop / 2} ${at} 2 ${at} ${stop}`} fill="none" />
      )}
      {rail.goesOn && <line className={own} x1={at} x2={at} y1={stop} y2="100%" />}
      <circle
        className={turn.hasHead && !small ? "is-head" : own}
        cx={at}
        cy={stop}
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
