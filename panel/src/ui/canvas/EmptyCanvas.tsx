// What the canvas shows while the workflow is empty.

import { pickFile } from "../files";
import { OpenIcon, PlusIcon } from "../icons";

export function EmptyCanvas({
  blocked,
  onAdd,
  onOpenFile,
}: {
  blocked: string | null;
  onAdd: () => void;
  onOpenFile: (file: File) => void;
}) {
  const open = async () => {
    const file = await pickFile();
    if (file) onOpenFile(file);
  };
  return (
    <div className="empty-canvas">
      <svg viewBox="0 0 300 60" aria-hidden="true">
        <path d="M34 30h232" />
        <rect x="12" y="12" width="76" height="36" rx="10" />
        <rect x="112" y="12" width="76" height="36" rx="10" />
        <rect x="212" y="12" width="76" height="36" rx="10" />
      </svg>
      <h2>The canvas is empty</h2>
      <p>Ask the agent to build something, open a file, or place the first operator yourself.</p>
      <div className="actions">
        <button
          type="button"
          className="button"
          disabled={blocked !== null}
          title={blocked ?? undefined}
          onClick={() => void open()}
        >
          <OpenIcon />
          Open a file
        </button>
        <button
          type="button"
          className="button"
          disabled={blocked !== null}
          title={blocked ?? undefined}
          onClick={onAdd}
        >
          <PlusIcon />
          Place an operator
        </button>
      </div>
    </div>
  );
}
