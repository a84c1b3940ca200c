// The whole step tree as it is drawn: lines of turns, each with the lines that leave it, as rows to walk.

import { visiblePath } from "./paths";
import { ROOT_STEP, type Step } from "./types";

/** A turn as far as one line has it. */
export interface TurnOnLine {
  /** Its first step on this line; `step-initial` is the beginning, `earlier` what is not loaded. */
  key: string;
  /** The person's own step; null where another line has it. */
  prompt: Step | null;
  /** What the agent did. */
  steps: readonly Step[];
  /** It is what the conversation shows. */
  onPath: boolean;
  /** HEAD is one of its steps. */
  hasHead: boolean;
  /** Redo goes to one of its steps. */
  hasRedo: boolean;
  /** The lines that leave it, oldest first. */
  lines: readonly TurnOnLine[][];
}

/** What is drawn left of a row: its own lane, and those that pass it. Lanes count from the left. */
export interface Rail {
  lane: number;
  /** Lanes of other lines that go on below. */
  through: readonly { lane: number; onPath: boolean }[];
  /** The line comes from above, or leaves the lane to the left, or begins here. */
  from: "above" | "left" | "here";
  /** The line goes on below. */
  goesOn: boolean;
  onPath: boolean;
}

export interface HistoryRow {
  key: string;
  kind: "beginning" | "earlier" | "turn" | "step" | "open";
  turn: TurnOnLine;
  /** The step of a row of kind `step`. */
  step: Step | null;
  level: number;
  place: number;
  of: number;
  /** Null where there is nothing below it. */
  expanded: boolean | null;
  rail: Rail;
}

export const EARLIER = "earlier";

/** The line that leads to HEAD, with all others hanging from it. */
export function treeOf(
  steps: ReadonlyMap<string, Step>,
  headId: string,
  redoId: string | null,
): TurnOnLine[] {
  const below = new Map<string, Step[]>();
  const starts: Step[] = [];
  for (const step of [...steps.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
    if (step.parentId !== ROOT_STEP && !steps.has(step.parentId)) starts.push(step);
    else below.set(step.parentId, [...(below.get(step.parentId) ?? []), step]);
  }
  const idsTo = (id: string | null) =>
    new Set(id === null ? [] : visiblePath(steps, id).map((step) => step.id));
  const shown = idsTo(headId);
  const wayForward = idsTo(redoId);

  const lineFrom = (first: Step): TurnOnLine[] => {
    const line: TurnOnLine[] = [];
    for (let step: Step | undefined = first; step; ) {
      const at: Step = step;
      const children: Step[] = below.get(at.id) ?? [];
      // Where HEAD stands its line ends: what goes on from there are others.
      const next: Step | undefined =
        at.id === headId
          ? undefined
          : (children.find((child) => shown.has(child.id)) ??
            children.find((child) => wayForward.has(child.id)) ??
            children.at(-1));
      let turn = line.at(-1);
      if (turn === undefined || (turn.prompt ?? turn.steps[0])?.messageId !== at.messageId) {
        turn = begun(at.id, shown.has(at.id));
        line.push(turn);
      }
      line[line.length - 1] = {
        ...turn,
        ...(at.role === "user" ? { prompt: at } : { steps: [...turn.steps, at] }),
        hasHead: turn.hasHead || at.id === headId,
        hasRedo: turn.hasRedo || at.id === redoId,
        lines: [...turn.lines, ...children.filter((child) => child !== next).map(lineFrom)],
      };
      step = next;
    }
    return line;
  };

  const top = below.get(ROOT_STEP) ?? [];
  const whole = starts.length === 0;
  const from = whole ? top : [...top, ...starts];
  const trunk =
    headId === ROOT_STEP
      ? undefined
      : (from.find((step) => shown.has(step.id)) ?? (whole ? from.at(-1) : from[0]));
  const root = {
    ...begun(whole ? ROOT_STEP : EARLIER, true),
    hasHead: headId === ROOT_STEP,
    lines: from.filter((step) => step !== trunk).map(lineFrom),
  };
  return [root, ...(trunk ? lineFrom(trunk) : [])];
}

function begun(key: string, onPath: boolean): TurnOnLine {
  return { key, prompt: null, steps: [], onPath, hasHead: false, hasRedo: false, lines: [] };
}

/** The rows from the top; what is below a turn only where it is `open`. `running` is the turn at work. */
export function rowsOf(
  trunk: readonly TurnOnLine[],
  open: ReadonlySet<string>,
  running: string | null,
): HistoryRow[] {
  const rows: HistoryRow[] = [];
  const walk = (
    line: readonly TurnOnLine[],
    level: number,
    lane: number,
    outer: Rail["through"],
    count: { place: number; of: number },
  ) => {
    line.forEach((turn, at) => {
      const steps = stepsOf(turn);
      const isRunning = running !== null && turn.hasHead && messageOf(turn) === running;
      const nested = turn.lines.reduce((sum, one) => sum + one.length, 0);
      const of = steps.length + (isRunning ? 1 : 0) + nested;
      const expanded = of === 0 ? null : open.has(turn.key);
      const last = at === line.length - 1;
      const own = expanded ? steps : [];
      const tail = expanded && isRunning ? 1 : 0;
      const sideLines = expanded ? turn.lines : [];
      const rail = (from: Rail["from"], goesOn: boolean): Rail => ({
        lane,
        through: outer,
        from,
        goesOn,
        onPath: turn.onPath,
      });
      const more = own.length + tail > 0 || sideLines.length > 0 || !last;
      rows.push({
        key: turn.key,
        kind: turn.key === ROOT_STEP ? "beginning" : turn.key === EARLIER ? "earlier" : "turn",
        turn,
        step: null,
        level,
        place: ++count.place,
        of: count.of,
        expanded,
        rail: rail(at > 0 ? "above" : lane === 0 ? "here" : "left", more),
      });
      own.forEach((step, index) =>
        rows.push({
          key: `${turn.key} ${step.id}`,
          kind: "step",
          turn,
          step,
          level: level + 1,
          place: index + 1,
          of,
          expanded: null,
          rail: rail("above", index + 1 < own.length + tail || sideLines.length > 0 || !last),
        }),
      );
      if (tail > 0) {
        rows.push({
          key: `${turn.key} open`,
          kind: "open",
          turn,
          step: null,
          level: level + 1,
          place: own.length + 1,
          of,
          expanded: null,
          rail: rail("above", sideLines.length > 0 || !last),
        });
      }
      const inner = { place: own.length + tail, of };
      sideLines.forEach((side, index) => {
        const next = line[at + 1];
        const passes = next !== undefined || index < sideLines.length - 1;
        const passing = { lane, onPath: next?.onPath ?? false };
        walk(side, level + 1, lane + 1, passes ? [...outer, passing] : outer, inner);
      });
    });
  };
  walk(trunk, 1, 0, [], { place: 0, of: trunk.length });
  return rows;
}

/** The rows below a turn: the agent's steps, where the turn has more than its prompt. */
function stepsOf(turn: TurnOnLine): readonly Step[] {
  return turn.prompt === null && turn.steps.length === 1 ? [] : turn.steps;
}

export function messageOf(turn: TurnOnLine): string | null {
  return (turn.prompt ?? turn.steps[0])?.messageId ?? null;
}

/** The last step of a turn on its line: the state after it. */
export function lastStepOf(turn: TurnOnLine): string {
  return (turn.steps.at(-1) ?? turn.prompt)?.id ?? ROOT_STEP;
}

/** The turns of all lines. */
export function everyTurn(trunk: readonly TurnOnLine[]): TurnOnLine[] {
  return trunk.flatMap((turn) => [turn, ...turn.lines.flatMap(everyTurn)]);
}
