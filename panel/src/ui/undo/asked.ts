// Whether a revert would leave something behind outside, and so what a plan has to be asked for.

import { useMemo } from "react";

import type { AskedUndo } from "../../client/undos";
import type { Turn } from "../../client/paths";
import type { Step } from "../../client/types";
import type { Target } from "../preview/usePreview";
import type { Outside } from "./useOutside";

const OVER = new Set(["reverted", "compensated", "cancelled"]);

/** Null where nothing outside was done since then that is still in force, as far as is known. */
export function askedOf(
  { turn, step }: Target,
  turns: readonly Turn[],
  outside: Outside,
): AskedUndo | null {
  const from = turns.findIndex((one) => one.id === turn.id);
  const steps = turns.slice(Math.max(0, from)).flatMap((one) => one.steps);
  const since = step === null ? steps : steps.slice(steps.findIndex((one) => one.id === step.id));
  if (!since.some((one) => stands(one, outside))) return null;
  return { revert: step === null ? { turn_id: turn.id } : { step_id: step.id } };
}

/** Whether an effect of a step stands; one that nothing is known of may. */
function stands(step: Step, { effects, standings }: Outside): boolean {
  const known = new Map([...effects.values()].map((one) => [one.effect_id, one.standing]));
  return step.effects.some((id) => {
    const told = standings.get(id);
    const standing = told === undefined ? known.get(id) : told;
    return standing === undefined || (standing !== null && !OVER.has(standing));
  });
}

export function useAsked(
  target: Target | null,
  turns: readonly Turn[],
  outside: Outside,
): AskedUndo | null {
  return useMemo(
    () => (target === null ? null : askedOf(target, turns, outside)),
    [target, turns, outside],
  );
}
