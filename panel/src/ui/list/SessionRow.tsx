// One session in the list.

import { useState } from "react";

import type { SessionInfo } from "../../client/types";
import { EditableName } from "../common/EditableName";
import { Menu } from "../common/Menu";
import { PageLink } from "../common/PageLink";
import { ArchiveIcon, FamilyIcon, PencilIcon, TrashIcon } from "../icons";
import { sessionPath } from "../router";
import { READ_ONLY } from "../session/obstacle";
import { ago, full } from "../time";

export function SessionRow({
  session,
  hasTwin,
  onRename,
  onArchive,
  onFamily,
  onDelete,
}: {
  session: SessionInfo;
  /** Another one of the list has the same name. */
  hasTwin: boolean;
  onRename: (name: string) => void;
  onArchive: () => void;
  onFamily: () => void;
  onDelete: () => void;
}) {
  const [editing, setEditing] = useState(false);
  const { rights } = session;
  const cannotChange = rights.includes("run") ? null : READ_ONLY;
  const path = sessionPath(session.id);
  const made = hasTwin ? `made ${full(Date.parse(session.created_at))}` : null;
  const updated = new Date(session.updated_at);
  const working =
    !session.waiting && (session.state === "GENERATING" || session.state === "STOPPING");
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
        <PageLink className="session-link" to={path}>
          {session.name}
          {made !== null && <span className="sr-only"> {made}</span>}
        </PageLink>
      )}
      {made !== null && (
        <span className="made" aria-hidden="true">
          {made}
        </span>
      )}
      {session.visibility === "private" && <span className="tag">Private</span>}
      {working && <span className="tag">Working</span>}
      {session.waiting && <span className="tag">Waits for you</span>}
      <span className="session-model">{session.model}</span>
      <time dateTime={session.updated_at} title={updated.toLocaleString()}>
        {ago(updated, new Date())}
      </time>
      <Menu
        label={`More for ${session.name}${made === null ? "" : `, ${made}`}`}
        items={[
          {
            label: "Rename",
            icon: <PencilIcon />,
            blocked: cannotChange,
            onSelect: () => setEditing(true),
          },
          {
            label: session.archived ? "Take out of the archive" : "Archive",
            icon: <ArchiveIcon />,
            blocked: cannotChange,
            onSelect: onArchive,
          },
          { label: "Family", icon: <FamilyIcon />, onSelect: onFamily },
          {
            label: "Delete…",
            icon: <TrashIcon />,
            blocked: rights.includes("manage") ? null : "Only its owner may delete it",
            onSelect: onDelete,
            danger: true,
          },
        ]}
      />
    </li>
  );
}
