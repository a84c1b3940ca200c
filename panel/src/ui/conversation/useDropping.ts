// Files that are dragged over a part of the page and dropped there.

import { useState, type DragEvent } from "react";

export interface Dropping {
  /** Files are over it just now. */
  over: boolean;
  handlers: {
    onDragOver: (event: DragEvent) => void;
    onDragLeave: (event: DragEvent) => void;
    onDrop: (event: DragEvent) => void;
  };
}

/** `onFiles` is null where none are taken: they are then left to the browser. */
export function useDropping(onFiles: ((files: File[]) => void) | null): Dropping {
  const [over, setOver] = useState(false);
  return {
    over: over && onFiles !== null,
    handlers: {
      onDragOver: (event) => {
        if (onFiles === null || !event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: (event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      },
      onDrop: (event) => {
        setOver(false);
        const files = [...event.dataTransfer.files];
        if (onFiles === null || files.length === 0) return;
        event.preventDefault();
        onFiles(files);
      },
    },
  };
}
