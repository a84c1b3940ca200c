// The canvas's own buttons: adding, a person's own undo, opening a file, the view.

import {
  FitIcon,
  MinusIcon,
  NoteIcon,
  OpenIcon,
  PlusIcon,
  RedoEditIcon,
  UndoEditIcon,
} from "../icons";
import { pickFile } from "../files";

export function CanvasTools({
  blocked,
  palette,
  canUndo,
  canRedo,
  onPalette,
  onNote,
  onUndo,
  onRedo,
  onOpenFile,
  onZoom,
  onFit,
}: {
  blocked: string | null;
  palette: boolean;
  canUndo: boolean;
  canRedo: boolean;
  onPalette: () => void;
  onNote: () => void;
  onUndo: () => void;
  onRedo: () => void;
  onOpenFile: (file: File) => void;
  onZoom: (by: number) => void;
  onFit: () => void;
}) {
  const disabled = blocked !== null;
  const open = async () => {
    const file = await pickFile();
    if (file) onOpenFile(file);
  };
  return (
    <>
      <div className="canvas-tools floating" role="toolbar" aria-label="Canvas">
        <button
          type="button"
          className="button quiet"
          aria-pressed={palette}
          disabled={disabled}
          title={blocked ?? "Add an operator"}
          onClick={onPalette}
        >
          <PlusIcon />
          Operator
        </button>
        <button
          type="button"
          className="button quiet"
          disabled={disabled}
          title={blocked ?? "Add a note to the canvas"}
          onClick={onNote}
        >
          <NoteIcon />
          Note
        </button>
        <button
          type="button"
          className="button quiet"
          disabled={disabled}
          title={blocked ?? "Open a workflow file in place of this workflow"}
          onClick={() => void open()}
        >
          <OpenIcon />
          Open file
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
    </>
  );
}
