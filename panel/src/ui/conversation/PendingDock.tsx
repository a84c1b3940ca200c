// Over the composer of a fork: the message that it was made to send again, and where it is.

import { firstWords } from "../../client/words";
import { PencilIcon, RedoIcon } from "../icons";
import type { Pending } from "../session/usePending";

export function PendingDock({ pending }: { pending: Pending }) {
  const { action, place, inComposer, add } = pending;
  const words = <strong dir="auto">“{firstWords(action.draft)}”</strong>;
  return (
    <div className="dock" role="region" aria-label="Message to send again">
      {action.mode === "edit" ? <PencilIcon /> : <RedoIcon />}
      <p>
        {place === "elsewhere" ? (
          <>
            Another page is at the message that this fork was made for, {words}. It comes here when
            that page has left it.
          </>
        ) : place === "left" ? (
          <>
            The page that was at the message that this fork was made for, {words}, has left it. It
            comes here in a moment, unless that page comes back.
          </>
        ) : inComposer ? (
          action.mode === "edit" ? (
            "This is the message that the fork was made for: change it, and send it."
          ) : (
            "This is the message that the fork was made for: send it to run it again."
          )
        ) : (
          <>This fork was made to send {words} again.</>
        )}
        {place === "here" && !inComposer && (
          <button type="button" className="link" onClick={add}>
            Add it to what you write
          </button>
        )}
      </p>
    </div>
  );
}
