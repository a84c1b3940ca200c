// The canvas's own buttons: adding, the outline, a person's own undo, opening a file, the view.

import type { ReactNode } from "react";

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
import { Action } from "../common/Action";
import { pickFile } from "../files";

/** A button of a toolbar; `text` stands beside its icon and is what it is called by. */
function Tool({
  icon,
  text,
  label = text,
  title = label,
  blocked = null,
  pressed,
  onAct,
}: {
  icon: ReactNode;
  text?: string;
  label?: string | undefined;
  title?: string | undefined;
  blocked?: string | null;
  pressed?: boolean;
  onAct: () => void;
}) {
  return (
    <Action
      className={text ? "button quiet" : "button icon-only quiet"}
      label={label}
      title={title}
      blocked={blocked}
      pressed={pressed}
      onAct={onAct}
    >
      {icon}
      {text && <span>{text}</span>}
    </Action>
  );
}

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
  const open = async () => {
    const file = await pickFile();
    if (file) onOpenFile(file);
  };
  return (
    <div className="canvas-tools floating" role="toolbar" aria-label="Canvas">
      <Tool
        icon={<PlusIcon />}
        text="Operator"
        title="Add an operator"
        blocked={blocked}
        pressed={panel === "palette"}
        onAct={onPalette}
      />
      <Tool
        icon={<NoteIcon />}
        text="Note"
        title="Add a note to the canvas"
        blocked={blocked}
        onAct={onNote}
      />
      <Tool
        icon={<OpenIcon />}
        text="Open file"
        title="Open a workflow file in place of this workflow"
        blocked={blocked}
        onAct={() => void open()}
      />
      <Tool
        icon={<OutlineIcon />}
        text="Outline"
        title="All operators and links as a list"
        pressed={panel === "outline"}
        onAct={onOutline}
      />
      <span className="divider" aria-hidden="true" />
      <Tool
        icon={<UndoEditIcon />}
        label="Take back your last canvas edit"
        title="Take back your last canvas edit (Ctrl+Z)"
        blocked={
          blocked ??
          (canUndo ? null : "You have made no edit on this canvas that could be taken back")
        }
        onAct={onUndo}
      />
      <Tool
        icon={<RedoEditIcon />}
        label="Make that edit again"
        title="Make that edit again (Ctrl+Shift+Z)"
        blocked={blocked ?? (canRedo ? null : "No edit to make again")}
        onAct={onRedo}
      />
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
      <Tool icon={<PlusIcon />} label="Zoom in" onAct={() => onZoom(1)} />
      <Tool icon={<MinusIcon />} label="Zoom out" onAct={() => onZoom(-1)} />
      <Tool icon={<FitIcon />} label="Show the whole workflow" onAct={onFit} />
    </div>
  );
}
