// One session in the list.

import { useState } from "react";

import type { SessionInfo } from "../../client/types";
import { EditableName } from "../common/EditableName";
import { Menu } from "../common/Menu";
import { ArchiveIcon, PencilIcon, TrashIcon } from "../icons";
import { navigate, sessionPath } from "../router";
import { ago } from "../time";

export function SessionRow({
  session,
  onRename,
  onArchive,
  onDelete,
}: {
  session: SessionInfo;
  onRename: (name: string) => void;
  onArchive: () => void;
  onDelete: () => void;
}) {
  const [editing, setEditing] = useState(false);
  const path = sessionPath(session.id);
  const updated = new Date(session.updated_at);
  const working = session.state === "GENERATING" || session.state === "STOPPING";
  return (
    <li className={`session-row${working ? " is-working" : ""}`}>
      <span className="station" aria-hidden="true" />
      {editing ? (
        <EditableName
          name={session.name}
          label="Session name"
          editing
          onEditing={setEditing}
          onRename={onRename}
        />
      ) : (
        <a
          className="session-link"
          href={path}
          onClick={(event) => {
            if (event.metaKey || event.ctrlKey || event.shiftKey) return;
            event.preventDefault();
            navigate(path);
          }}
        >
          {session.name}
        </a>
      )}
      {working && <span className="tag">Working</span>}
      <span className="session-model">{session.model}</span>
      <time dateTime={session.updated_at} title={updated.toLocaleString()}>
        {ago(updated, new Date())}
      </time>
      <Menu
        label={`More for ${session.name}`}
        items={[
          { label: "Rename", icon: <PencilIcon />, onSelect: () => setEditing(true) },
          {
            label: session.archived ? "Take out of the archive" : "Archive",
            icon: <ArchiveIcon />,
            onSelect: onArchive,
          },
          { label: "Delete…", icon: <TrashIcon />, onSelect: onDelete, danger: true },
        ]}
      />
    </li>
  );
}
