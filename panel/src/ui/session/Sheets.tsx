// The sheets that open over a session's page, one at a time.

import type { SessionState } from "../../client/reducer";
import { FamilyDialog } from "../family/FamilyDialog";
import { HistoryDialog } from "../history/HistoryDialog";
import { SettingsDialog } from "../settings/SettingsDialog";
import { ShareDialog } from "../sharing/ShareDialog";
import { ShortcutSheet } from "./ShortcutSheet";

export type Sheet = "help" | "settings" | "share" | "family" | "history";

export function Sheets({
  id,
  sheet,
  state,
  at,
  mayRun,
  blocked,
  fail,
  onUndo,
  onClose,
}: {
  id: string;
  sheet: Sheet | null;
  state: SessionState;
  /** The earlier state that is looked at, if there is one. */
  at: string | null;
  mayRun: boolean;
  /** Why nothing can be changed just now. */
  blocked: string | null;
  fail: (error: unknown) => void;
  /** What turns did outside is to be undone. */
  onUndo: (turnIds: string[]) => void;
  onClose: () => void;
}) {
  switch (sheet) {
    case "help":
      return <ShortcutSheet onClose={onClose} />;
    case "settings":
      return <SettingsDialog id={id} onClose={onClose} />;
    case "share":
      return <ShareDialog id={id} sharing={state.sharing} onClose={onClose} />;
    case "family":
      return <FamilyDialog id={id} name={state.name} archived={state.archived} onClose={onClose} />;
    case "history":
      return (
        <HistoryDialog
          id={id}
          state={state}
          at={at}
          mayRun={mayRun}
          blocked={blocked}
          fail={fail}
          onUndo={onUndo}
          onClose={onClose}
        />
      );
    case null:
      return null;
  }
}
