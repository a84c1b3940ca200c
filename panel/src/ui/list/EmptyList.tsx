// What the list shows when there is nothing in it.

import { OpenIcon, PlusIcon } from "../icons";

export function EmptyList({
  reason,
  query,
  onCreate,
  onOpen,
}: {
  reason: "none" | "search" | "archived";
  query: string;
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
      <svg className="empty-map" viewBox="0 0 520 170" aria-hidden="true">
        <path className="map-old" d="M222 62h60c34 0 34 62 68 62h112" />
        <path className="map-line" d="M40 62h370c46 0 46-38 10-38h-20" />
        <g className="map-stations">
          <circle cx="52" cy="62" r="9" />
          <circle cx="137" cy="62" r="9" />
          <circle cx="222" cy="62" r="9" />
          <circle cx="318" cy="62" r="9" />
        </g>
        <g className="map-stations old">
          <circle cx="372" cy="124" r="7" />
          <circle cx="450" cy="124" r="7" />
        </g>
        <g className="map-words">
          <text x="52" y="94">ask</text>
          <text x="137" y="94">watch</text>
          <text x="222" y="94">turn back</text>
          <text x="318" y="94">ask again</text>
          <text x="411" y="154">the old line stays</text>
        </g>
      </svg>
      <h2>Change a workflow by asking, and turn back from any answer</h2>
      <p>
        A session is a conversation over one workflow. Every turn can be reverted exactly and redone;
        nothing said before is lost.
      </p>
      <div className="actions">
        <button type="button" className="button primary" onClick={onCreate}>
          <PlusIcon />
          New session
        </button>
        <button type="button" className="button" onClick={onOpen}>
          <OpenIcon />
          Open a workflow file
        </button>
      </div>
      <p className="hint">or drop a workflow’s .json file anywhere on this page</p>
    </div>
  );
}
