// The small cross that closes a panel on the canvas.

import { CloseIcon } from "../icons";

export function CloseButton({ onClose }: { onClose: () => void }) {
  return (
    <button
      type="button"
      className="button icon-only quiet small"
      aria-label="Close"
      onClick={onClose}
    >
      <CloseIcon />
    </button>
  );
}
