// Over the composer: undos that are under way, and those that have left what nobody has acknowledged.
// The server keeps them, so they are there after a reload.

import { done, headline, openResidues, remains } from "../../client/undoWords";
import type { Undo } from "../../client/types";
import { AlertIcon, RevertIcon, StopIcon } from "../icons";

export function UndoDock({
  undos,
  readable,
  onReport,
  onStop,
}: {
  undos: ReadonlyMap<string, Undo>;
  /** The reader may see names, and so the report. */
  readable: boolean;
  onReport: (undoId: string) => void;
  /** No further effect is begun; null for who may not. */
  onStop: (() => void) | null;
}) {
  const shown = [...undos].filter(([, undo]) => undo.phase === "run" || openResidues(undo) > 0);
  return shown.map(([undoId, undo]) => (
    <div className="dock undo-dock" role="region" aria-label="Effects outside" key={undoId}>
      {undo.phase === "run" ? <RevertIcon /> : <AlertIcon />}
      <p>
        <strong>{undo.phase === "run" ? "Effects outside are being taken back" : remains(undo)}</strong>
        <span className="dock-next">{headline(undo)}</span>
        {undo.phase === "run" && (
          <progress
            aria-label="Effects that are done"
            max={undo.items.length}
            value={done(undo)}
          />
        )}
      </p>
      {readable && (
        <div className="dock-actions">
          {undo.phase === "run" && onStop !== null && (
            <button
              type="button"
              className="button quiet"
              title="What has begun is finished; nothing more is begun"
              onClick={onStop}
            >
              <StopIcon />
              Stop
            </button>
          )}
          <button type="button" className="button" onClick={() => onReport(undoId)}>
            Show the report
          </button>
        </div>
      )}
    </div>
  ));
}
