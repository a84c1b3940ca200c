// What a person does on the canvas, as commands of the session; each is the same function while it is open.

import { useMemo } from "react";

import { parseJson } from "../../client/json";
import type { Move } from "../../client/ownEdits";
import type { Session } from "../../client/session";
import type { Edit, Workflow } from "../../client/types";
import { readWorkflowFile } from "../files";
import type { Attempt } from "./useAttempt";

export interface CanvasEdits {
  onEdit: (edits: Edit[], inverse?: Edit[]) => void;
  onMove: (things: Move[]) => void;
  onUndo: () => void;
  onRedo: () => void;
  onOpenFile: (file: File) => void;
}

export function useCanvasEdits(session: Session, attempt: Attempt): CanvasEdits {
  return useMemo(
    () => ({
      onEdit: (edits, inverse) => void attempt(() => session.edit(edits, inverse)),
      onMove: (things) => session.moveThings(things),
      onUndo: () => void attempt(() => session.undoEdit()),
      onRedo: () => void attempt(() => session.redoEdit()),
      onOpenFile: (file) =>
        void attempt(async () => {
          const { text } = await readWorkflowFile(file);
          await session.edit([{ op: "replaceWorkflow", workflow: parseJson(text) as Workflow }]);
        }),
    }),
    [session, attempt],
  );
}
