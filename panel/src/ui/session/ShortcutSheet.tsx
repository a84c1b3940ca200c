// The sheet of keyboard shortcuts.

import { Dialog } from "../common/Dialog";

const SHORTCUTS: [keys: string, what: string][] = [
  ["Enter", "Send the message"],
  ["Shift Enter", "A new line in the message"],
  ["Esc", "Stop the agent"],
  ["Alt Shift Z", "Revert the last turn"],
  ["Alt Shift Y", "Redo what was reverted"],
  ["Alt ←", "The earlier line, where lines part"],
  ["Alt →", "The later line"],
  ["Ctrl Z", "On the canvas: take back your own last edit"],
  ["Ctrl Shift Z", "On the canvas: make that edit again"],
  ["Delete", "On the canvas: remove what is selected"],
  ["Arrows", "On the canvas: move what is selected"],
  ["?", "This sheet"],
];

export function ShortcutSheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
