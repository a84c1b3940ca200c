// The report of an undo: what came of each effect by verb, and what is left, to be acknowledged.

import { useState } from "react";

import { VERB_WORDS } from "../../client/undoWords";
import type { SessionState } from "../../client/reducer";
import type { RestReport, RestUndoItem } from "../../client/types";
import { counted } from "../../client/words";
import { Dialog } from "../common/Dialog";
import { ResidueList, isTheirs } from "./ResidueList";
import { Said } from "./Said";
import { UndoEffects } from "./UndoEffects";
import { Values } from "./Values";
import { useReport } from "./useReport";

export function ReportDialog({
  id,
  undoId,
  state,
  cannot,
  undecided,
  fail,
  onReport,
  onClose,
}: {
  id: string;
  undoId: string;
  state: SessionState;
  /** Why nothing can be changed just now. */
  cannot: string | null;
  /** Why this page cannot decide what a person has to. */
  undecided: string | null;
  fail: (error: unknown) => void;
  /** To the report of another undo. */
  onReport: (undoId: string) => void;
  onClose: () => void;
}) {
  const [rest, setRest] = useState(false);
  const revision = state.undos.get(undoId)?.undoRevision ?? 0;
  const { report, said, onAcknowledge, onOverwrite } = useReport(id, undoId, revision, fail, onReport);
  return (
    <Dialog
      title={report?.status === "running" ? "What is being taken back" : "What the undo came to"}
      onClose={onClose}
    >
      {report === null ? (
        <p>Loading</p>
      ) : (
        <div className="report" lang={report.language}>
          <p className="report-headline">{report.headline}</p>
          {report.residues.length > 0 && (
            <ResidueList
              residues={report.residues}
              items={report.items}
              cannot={cannot}
              undecided={undecided}
              onAcknowledge={onAcknowledge}
              onOverwrite={onOverwrite}
            />
          )}
          {VERB_WORDS.map(([verb, heading]) => {
            const items = report.items.filter((item) => item.verb === verb);
            return (
              items.length > 0 && (
                <section key={verb}>
                  <h3 lang="en">
                    {heading} <small>({counted(items.length, "effect")})</small>
                  </h3>
                  <ul className="report-items">
                    {items.map((item) => (
                      <Item
                        key={item.effect_id}
                        item={item}
                        above={report.residues.some((residue) => isTheirs(residue, item))}
                      />
                    ))}
                  </ul>
                </section>
              )
            );
          })}
        </div>
      )}
      {rest && (
        <UndoEffects
          id={id}
          asked={{ undo_id: undoId }}
          label="The rest, in a new plan"
          state={state}
          cannot={cannot}
          undecided={undecided}
          fail={fail}
          onStarted={(next) => (next === null ? onClose() : onReport(next))}
        />
      )}
      <p className="sr-only" role="status">
        {said}
      </p>
      <div className="actions">
        {!rest && mayTryAgain(report) && (
          <button type="button" className="button" onClick={() => setRest(true)}>
            Try the rest in a new plan
          </button>
        )}
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

const LATER = new Set(["blocked", "failed", "not_started", "in_doubt", "partly", "needs_review"]);

/** Whether a later undo may come further. */
function mayTryAgain(report: RestReport | null): boolean {
  return report?.status === "ended" && report.items.some((item) => LATER.has(item.state));
}

function Item({
  item,
  above,
}: {
  item: RestUndoItem;
  /** Its values are shown with what remains of it. */
  above: boolean;
}) {
  return (
    <li data-state={item.state}>
      <span className="report-tool">
        <code>{item.tool}</code> <bdi>{item.what}</bdi>
        {item.people.length > 0 && <small dir="auto">{item.people.join(", ")}</small>}
      </span>
      <span className="report-said">
        <Said text={item.said} />
      </span>
      {item.values.length > 0 && !above && <Values values={item.values} />}
    </li>
  );
}
