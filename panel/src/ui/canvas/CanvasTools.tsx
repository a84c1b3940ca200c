// The canvas's own buttons: adding, the outline, a person's own undo, opening a file, the view.

import {
  FitIcon,
  MinusIcon,
  NoteIcon,
  OpenIcon,
  OutlineIcon,
  PlusIcon,
  RedoEditIcon,
  UndoEditIcon,
} from "../icons";
import { pickFile } from "../files";

export function CanvasTools({
  blocked,
  panel,
  canUndo,
  canRedo,
  onPalette,
  onOutline,
  onNote,
  onUndo,
  onRedo,
  onOpenFile,
}: {
  blocked: string | null;
  panel: "palette" | "outline" | null;
  canUndo: boolean;
  canRedo: boolean;
  onPalette: () => void;
  onOutline: () => void;
  onNote: () => void;
  onUndo: () => void;
  onRedo: () => void;
  onOpenFile: (file: File) => void;
}) {
  const disabled = blocked !== null;
  const open = async () => {
    const file = await pickFile();
    if (file) onOpenFile(file);
  };
  return (
    <div className="canvas-tools floating" role="toolbar" aria-label="Canvas">
      <button
        type="button"
        className="button quiet"
        aria-label="Operator"
        aria-pressed={panel === "palette"}
        disabled={disabled}
        title={blocked ?? "Add an operator"}
        onClick={onPalette}
      >
        <PlusIcon />
        <span>Operator</span>
      </button>
      <button
        type="button"
        className="button quiet"
        aria-label="Note"
        disabled={disabled}
        title={blocked ?? "Add a note to the canvas"}
        onClick={onNote}
      >
        <NoteIcon />
        <span>Note</span>
      </button>
      <button
        type="button"
        className="button quiet"
        aria-label="Open file"
        disabled={disabled}
        title={blocked ?? "Open a workflow file in place of this workflow"}
        onClick={() => void open()}
      >
        <OpenIcon />
        <span>Open file</span>
      </button>
      <button
        type="button"
        className="button quiet"
        aria-label="Outline"
        aria-pressed={panel === "outline"}
        title="All operators and links as a list"
        onClick={onOutline}
      >
        <OutlineIcon />
        <span>Outline</span>
      </button>
      <span className="divider" aria-hidden="true" />
      <button
        type="button"
        className="button icon-only quiet"
        aria-label="Take back your last canvas edit"
        disabled={disabled || !canUndo}
        title={
          blocked ??
          (canUndo
            ? "Take back your last canvas edit (Ctrl+Z)"
            : "You have made no edit on this canvas that could be taken back")
        }
        onClick={onUndo}
      >
        <UndoEditIcon />
      </button>
      <button
        type="button"
        className="button icon-only quiet"
        aria-label="Make that edit again"
        disabled={disabled || !canRedo}
        title={
          blocked ?? (canRedo ? "Make that edit again (Ctrl+Shift+Z)" : "No edit to make again")
        }
        onClick={onRedo}
      >
        <RedoEditIcon />
      </button>
    </div>
  );
}

export function ViewTools({
  onZoom,
  onFit,
}: {
  onZoom: (by: number) => void;
  onFit: () => void;
}) {
  return (
    <div className="view-tools floating" role="toolbar" aria-label="View">
      <button
        type="button"
        className="button icon-only quiet"
        aria-label="Zoom in"
        title="Zoom in"
        onClick={() => onZoom(1)}
      >
        <PlusIcon />
      </button>
      <button
        type="button"
        className="button icon-only quiet"
        aria-label="Zoom out"
        title="Zoom out"
        onClick={() => onZoom(-1)}
      >
        <MinusIcon />
      </button>
      <button
        type="button"
        className="button icon-only quiet"
        aria-label="Show the whole workflow"
        title="Show the whole workflow"
        onClick={onFit}
      >
        <FitIcon />
      </button>
    </div>
  );
}
