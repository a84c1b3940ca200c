// The sheets that open over a session's page, one at a time.

import type { SessionState } from "../../client/reducer";
import { FamilyDialog } from "../family/FamilyDialog";
import { SettingsDialog } from "../settings/SettingsDialog";
import { ShareDialog } from "../sharing/ShareDialog";
import { ShortcutSheet } from "./ShortcutSheet";

export type Sheet = "help" | "settings" | "share" | "family";

export function Sheets({
  id,
  sheet,
  state,
  onClose,
}: {
  id: string;
  sheet: Sheet | null;
  state: SessionState;
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
    case null:
      return null;
  }
}
