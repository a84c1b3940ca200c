// The small cross that closes a panel, or takes one of several away.

import { CloseIcon } from "../icons";

export function CloseButton({
  label = "Close",
  onClose,
}: {
  label?: string;
  onClose: () => void;
}) {
  return (
    <button
      type="button"
      className="button icon-only quiet small"
      aria-label={label}
      title={label}
      onClick={onClose}
    >
      <CloseIcon />
    </button>
  );
}
