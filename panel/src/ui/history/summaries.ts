// What a turn or a step has done outside, in counts: where it stands, and what an undo has left of it.

import type { RestEffect, RestResidue, Standing, Step } from "../../client/types";
import { messageOf, type TurnOnLine } from "../../client/history";
import { inOpenStep, outsideOf, type Outside, type Owner } from "../undo/useOutside";

/** One effect as history has it. */
export interface Done {
  effect: RestEffect;
  standing: Standing | null;
  /** When it is sent, while it is held back. */
  heldUntil: number | null;
  owner: Owner | null;
  /** What is left of it, and how that stands. */
  left: { status: RestResidue["status"]; what: string | null } | null;
}

type Residues = ReadonlyMap<string, RestResidue> | null;

/** What a step's calls did outside. Reads, and calls that changed nothing, are nothing. */
export function doneIn(step: Step, outside: Outside, residues: Residues): Done[] {
  return (step.toolCalls ?? []).flatMap(({ toolCallId }) => {
    const found = outsideOf(outside, toolCallId);
    return found.effect === null ? [] : [done(found.effect, outside, residues)];
  });
}

/** What the step that a turn is at has done so far: it is in the log, and no step yet. */
export function doneInOpen(
  turn: TurnOnLine,
  known: ReadonlySet<string>,
  outside: Outside,
  residues: Residues,
): Done[] {
  return inOpenStep(messageOf(turn), known, outside).map((effect) => done(effect, outside, residues));
}

function done(effect: RestEffect, outside: Outside, residues: Residues): Done {
  const { standing, heldUntil, item, owner } = outsideOf(outside, effect.tool_call_id);
  const told = residues?.get(effect.effect_id);
  const over = standing === "reverted" || standing === "cancelled" || standing === null;
  const left = told
    ? { status: told.status, what: told.what }
    : item?.residue
      ? { status: item.residue.status, what: null }
      : null;
  // A later undo has come further than the one that left it.
  return { effect, standing, heldUntil, owner, left: over ? null : left };
}

/** How many stand where, and how many have left what nobody has acknowledged. */
export function totals(all: readonly Done[]): { standings: [Standing, number][]; open: number } {
  const counts = new Map<Standing, number>();
  let open = 0;
  for (const { standing, left } of all) {
    if (standing !== null) counts.set(standing, (counts.get(standing) ?? 0) + 1);
    if (left?.status === "open") open += 1;
  }
  return { standings: [...counts], open };
}
