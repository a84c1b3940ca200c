// The sheet of keyboard shortcuts.

import { Dialog } from "../common/Dialog";

const SHORTCUTS: [keys: string, what: string][] = [
  ["Enter", "Send the message"],
  ["Shift Enter", "A new line in the message"],
  ["/", "To the message field"],
  ["Esc", "Stop the agent; close what is open; back from an earlier state"],
  ["Alt Shift Z", "Revert the last turn"],
  ["Alt Shift Y", "Redo what was reverted"],
  ["Alt ← →", "The earlier or later line, where lines part"],
  ["↑ ↓", "On a turn’s Revert button: to the next turn’s"],
  ["Arrows", "On the canvas: from operator to operator"],
  ["Home End", "On the canvas: to the first or last operator"],
  ["Enter", "On an operator: open its settings"],
  ["Shift Arrows", "On an operator: move it"],
  ["Delete", "On the canvas: remove the operator, or what is selected"],
  ["Ctrl Z", "On the canvas: take back your own last edit"],
  ["Ctrl Shift Z", "On the canvas: make that edit again"],
  ["?", "This sheet"],
];

export function ShortcutSheet({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([keys, what]) => (
          <div key={what}>
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
