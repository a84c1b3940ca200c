// What is left, as a checklist: a person acknowledges each. That raises no outcome.

import { useState } from "react";

import type { RestDraft, RestResidue, RestUndoItem } from "../../client/types";
import { Overwrite } from "./Overwrite";
import { Said } from "./Said";
import { Undecided } from "./Undecided";

export function ResidueList({
  residues,
  items,
  cannot,
  undecided,
  onAcknowledge,
  onOverwrite,
}: {
  residues: RestResidue[];
  /** What came of each effect: where somebody else's change was met, with both values. */
  items: readonly RestUndoItem[];
  /** Why nothing can be overwritten just now. */
  cannot: string | null;
  /** Why this page cannot decide what a person has to, acknowledging among it. */
  undecided: string | null;
  onAcknowledge: (residue: RestResidue) => void;
  onOverwrite: (residue: RestResidue) => Promise<void>;
}) {
  const open = residues.filter((residue) => residue.status === "open").length;
  const came = new Map(items.map((item) => [item.effect_id, item]));
  return (
    <section className="residues">
      <h3 lang="en">What remains{open > 0 && <small> ({open} to acknowledge)</small>}</h3>
      {open > 0 && undecided !== null && <Undecided why={undecided} />}
      <ul>
        {residues.map((residue) => (
          <li key={residue.residue_id} data-status={residue.status}>
            <label className="residue">
              <input
                type="checkbox"
                checked={residue.status !== "open"}
                // Nothing takes it back, and the focus stays.
                aria-disabled={residue.status !== "open" || undecided !== null || undefined}
                onChange={() => {
                  if (residue.status === "open" && undecided === null) onAcknowledge(residue);
                }}
              />
              <span dir="auto">
                <Said text={residue.what} />
              </span>
            </label>
            <Named item={came.get(residue.effect_id)} residue={residue} />
            <p className="residue-more" dir="auto">
              <Said text={residue.saw} /> <Said text={residue.settles} />
            </p>
            <p className="residue-more" dir="auto">
              <Said text={residue.how} />
            </p>
            {residue.status === "settled" && (
              <p className="residue-more" lang="en">
                It has settled.
              </p>
            )}
            {residue.draft && <Draft draft={residue.draft} />}
            <TheirChange
              item={came.get(residue.effect_id)}
              residue={residue}
              blocked={cannot ?? undecided}
              onOverwrite={onOverwrite}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Whether what is left is somebody else's change, whose both values are shown with it. */
export function isTheirs(residue: RestResidue, item: RestUndoItem): boolean {
  const { effect_id, state, reason, standing, values } = item;
  if (effect_id !== residue.effect_id || state !== "needs_review" || reason !== "drift") return false;
  // Taken back by now, there is nothing left to put over theirs.
  return values.length > 0 && residue.status !== "settled" && standing !== "reverted";
}

/** What the effect was about, where the sentence does not say it. */
function Named({ item, residue }: { item: RestUndoItem | undefined; residue: RestResidue }) {
  if (!item || residue.what.includes(item.what) || isTheirs(residue, item)) return null;
  return (
    <p className="residue-more">
      <bdi>{item.what}</bdi>
    </p>
  );
}

function TheirChange({
  item,
  residue,
  blocked,
  onOverwrite,
}: {
  item: RestUndoItem | undefined;
  residue: RestResidue;
  blocked: string | null;
  onOverwrite: (residue: RestResidue) => Promise<void>;
}) {
  if (!item || !isTheirs(residue, item)) return null;
  return (
    <div className="residue-more">
      <Overwrite
        tool={item.tool}
        values={item.values}
        blocked={blocked}
        onOverwrite={() => onOverwrite(residue)}
      />
    </div>
  );
}

/** Sent by nobody but a person: it is there to be copied. */
function Draft({ draft }: { draft: RestDraft }) {
  const [copied, setCopied] = useState<"yes" | "no" | null>(null);
  const text = `${draft.subject}\n\n${draft.body}`;
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setCopied("yes"),
      () => setCopied("no"),
    );
  };
  return (
    <details className="draft">
      <summary>
        <span lang="en">Draft of a message to </span>
        <bdi>{draft.to.join(", ")}</bdi>
      </summary>
      <pre tabIndex={0} role="group" aria-label="Draft" dir="auto">
        {text}
      </pre>
      <button type="button" className="button small" lang="en" onClick={copy}>
        Copy the draft
      </button>
      <span role="status" className="draft-copied" lang="en">
        {copied === "yes" ? "Copied" : copied === "no" ? "Select it and copy it by hand" : ""}
      </span>
    </details>
  );
}
