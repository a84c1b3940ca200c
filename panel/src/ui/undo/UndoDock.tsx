// Over the composer: undos that are under way, and those that have left what nobody has acknowledged.
// The server keeps them, so they are there after a reload.

import { headline, openResidues, remains } from "../../client/undoWords";
import type { Undo } from "../../client/types";
import { AlertIcon, RevertIcon } from "../icons";

export function UndoDock({
  undos,
  readable,
  onReport,
}: {
  undos: ReadonlyMap<string, Undo>;
  /** The reader may see names, and so the report. */
  readable: boolean;
  onReport: (undoId: string) => void;
}) {
  const shown = [...undos].filter(([, undo]) => undo.phase === "run" || openResidues(undo) > 0);
  return shown.map(([undoId, undo]) => (
    <div className="dock undo-dock" role="region" aria-label="Effects outside" key={undoId}>
      {undo.phase === "run" ? <RevertIcon /> : <AlertIcon />}
      <p>
        <strong>{undo.phase === "run" ? "Under way" : remains(undo)}</strong>
        <span className="dock-next">{headline(undo)}</span>
        {undo.phase === "run" && (
          <progress
            aria-label="Effects settled"
            max={undo.items.length}
            value={Object.values(undo.counts).reduce((sum, n) => sum + n, 0)}
          />
        )}
      </p>
      {readable && (
        <div className="dock-actions">
          <button type="button" className="button" onClick={() => onReport(undoId)}>
            Show the report
          </button>
        </div>
      )}
    </div>
  ));
}
