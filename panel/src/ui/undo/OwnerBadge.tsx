// An effect that a fork has inherited belongs to the session that made it, and is taken back from there.

import { PageLink } from "../common/PageLink";
import { sessionPath } from "../router";
import type { Owner } from "./useOutside";

export function OwnerBadge({ owner }: { owner: Owner }) {
  return (
    <span className="owner-badge">
      belongs to <bdi>{owner.name ?? "another session"}</bdi>
    </span>
  );
}

export function OwnerNote({ owner }: { owner: Owner }) {
  return (
    <p className="owner-note">
      It belongs to{" "}
      {owner.id === null ? (
        "a session that you may not read"
      ) : (
        <PageLink className="link" to={sessionPath(owner.id)}>
          <bdi>{owner.name ?? "another session"}</bdi>
        </PageLink>
      )}
      , and is taken back from there alone.
    </p>
  );
}
