// How the page speaks of effects and of undos. The four verbs, and never a bare "undone".

import type { EffectClass, Standing, Undo, Verb } from "./types";
import { counted } from "./words";

export const CLASS_WORDS: Readonly<Record<EffectClass, [name: string, meaning: string]>> = {
  read: ["Reads", "It changes nothing outside."],
  reversible: ["Reversible", "An inverse puts everything back that it changes."],
  compensable: ["Compensable", "It can be offset, and something is left."],
  irreversible: ["Irreversible", "It cannot be taken back."],
};

export const STANDING_WORDS: Readonly<Record<Standing, string>> = {
  in_force: "in force",
  reverted: "reverted",
  compensated: "compensated",
  cancelled: "cancelled",
  in_doubt: "in doubt",
  partly: "put back in part",
};

/** The headings of a report, what needs a person first. */
export const VERB_WORDS: readonly [Verb, string][] = [
  ["acknowledge", "To acknowledge: out of our hands"],
  ["compensate", "Compensate"],
  ["cancel", "Cancel"],
  ["revert", "Revert"],
];

const COUNTS: readonly [string, (n: number) => string][] = [
  ["needs_you", (n) => (n === 1 ? "1 needs you" : `${n} need you`)],
  ["needs_review", (n) => (n === 1 ? "1 needs a review" : `${n} need a review`)],
  ["in_doubt", (n) => `${n} in doubt`],
  ["failed", (n) => `${n} failed`],
  ["not_started", (n) => `${n} not started`],
  ["compensate", (n) => `${n} compensated`],
  ["cancel", (n) => `${n} cancelled`],
  ["revert", (n) => `${n} reverted`],
];

const OUTCOMES: Readonly<Record<NonNullable<Undo["outcome"]>, string>> = {
  fully_reverted: "Fully reverted",
  partially_reverted: "Partially reverted",
  not_reverted: "Not reverted",
};

/** One line over an undo, from what everybody is told of it; what needs a person comes first. */
export function headline(undo: Undo): string {
  const { outcome, counts, items } = undo;
  const parts = COUNTS.flatMap(([name, say]) => {
    const n = counts[name] ?? 0;
    return n > 0 ? [say(n)] : [];
  });
  const ended = parts.join(", ");
  if (outcome === null) {
    return `${done(undo)} of ${counted(items.length, "effect")} done${ended && ` (${ended})`}`;
  }
  return ended === "" ? OUTCOMES[outcome] : `${OUTCOMES[outcome]}: ${ended}`;
}

/** How many effects an undo has come to an end with. */
export function done({ counts }: Undo): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

/** How many residues nobody has acknowledged yet. */
export function openResidues({ items }: Undo): number {
  return items.filter((item) => item.residue?.status === "open").length;
}

/** `Reverted, 2 things remain`, and less where it is less. */
export function remains(undo: Undo): string {
  const left = openResidues(undo);
  const lead =
    undo.outcome === "fully_reverted"
      ? "Fully reverted"
      : undo.outcome === "not_reverted"
        ? "Not reverted"
        : "Reverted";
  if (left === 0) return undo.outcome === "partially_reverted" ? "Partially reverted" : lead;
  return `${lead}, ${counted(left, "thing")} ${left === 1 ? "remains" : "remain"}`;
}
