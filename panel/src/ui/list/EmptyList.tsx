// What the list shows when there is nothing in it.

import { Action } from "../common/Action";
import { OpenIcon, PlusIcon } from "../icons";

export function EmptyList({
  reason,
  query,
  blocked,
  onCreate,
  onOpen,
}: {
  reason: "none" | "search" | "archived";
  query: string;
  /** Why none can be made. */
  blocked: string | null;
  onCreate: () => void;
  onOpen: () => void;
}) {
  if (reason === "search") {
    return (
      <div className="empty small">
        <h2>No session is called “{query}”</h2>
        <p>Search looks at names. Try a shorter word.</p>
      </div>
    );
  }
  if (reason === "archived") {
    return (
      <div className="empty small">
        <h2>Nothing is archived</h2>
        <p>Archived sessions rest here, read-only, until you take them out again.</p>
      </div>
    );
  }
  return (
    <div className="empty">
      <svg className="empty-map" viewBox="0 0 520 160" aria-hidden="true">
        <path className="map-old" d="M150 52h300" />
        <path className="map-line" d="M36 52h116c40 0 36 56 76 56h250" />
        <g className="map-stations">
          <circle cx="48" cy="52" r="9" />
          <circle cx="138" cy="52" r="9" />
          <circle cx="298" cy="108" r="9" />
          <circle cx="404" cy="108" r="9" />
        </g>
        <g className="map-stations old">
          <circle cx="270" cy="52" r="7" />
          <circle cx="370" cy="52" r="7" />
        </g>
        <g className="map-words">
          <text x="48" y="24">ask</text>
          <text x="138" y="24">turn back</text>
          <text x="320" y="24">what you tried stays</text>
          <text x="298" y="142">ask again</text>
          <text x="404" y="142">go on</text>
        </g>
      </svg>
      <h2>Change a workflow by asking, and turn back from any answer</h2>
      <p>
        A session is a conversation over one workflow. Every turn can be reverted exactly and redone;
        nothing said before is lost.
      </p>
      <div className="actions">
        <Action className="button primary" blocked={blocked} onAct={onCreate}>
          <PlusIcon />
          New session
        </Action>
        <Action className="button" blocked={blocked} onAct={onOpen}>
          <OpenIcon />
          Open a workflow file
        </Action>
      </div>
      <p className="hint">
        {blocked === null
          ? "or drop a workflow’s .json file anywhere on this page"
          : `${blocked}.`}
      </p>
    </div>
  );
}
