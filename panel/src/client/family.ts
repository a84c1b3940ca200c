// A family as a tree to walk in: sessions and their forks, as far as they are loaded. Those that were
// deleted, or may not be read, are not in it.

import type { RestFamily, RestRelative } from "./types";

export interface Relative {
  id: string;
  name: string;
  archived: boolean;
  /** Its forks that are loaded, newest first. */
  children: string[];
  /** Where its forks go on: `undefined` where they have not been asked for, null where all are here. */
  cursor: string | null | undefined;
}

export interface Family {
  /** The session that the family is looked at from. */
  id: string;
  /** The oldest that is shown. */
  root: string;
  members: ReadonlyMap<string, Relative>;
}

/** One line of the tree as it is drawn. */
export type Row =
  | { kind: "session"; id: string; level: number; place: number; of: number; open: boolean | null }
  /** More forks of `id`. */
  | { kind: "more"; id: string; level: number; place: number; of: number };

function relative({ session_id, name, archived }: RestRelative): Relative {
  return { id: session_id, name: name ?? "", archived, children: [], cursor: undefined };
}

/** The family as its member `name` sees it: the way up to the oldest, and its own forks. */
export function familyFrom(answer: RestFamily, name: string, archived: boolean): Family {
  const self: RestRelative = { session_id: answer.session_id, name, archived, deleted: false };
  const line = [self, ...answer.ancestors.filter((one) => !one.deleted)].map(relative);
  line.forEach((one, index) => {
    const below = line[index - 1];
    if (below) one.children = [below.id];
  });
  const members = new Map(line.map((one) => [one.id, one]));
  const root = line.at(-1)?.id ?? answer.session_id;
  return withForks({ id: answer.session_id, root, members }, answer);
}

/** The family with one more page of forks of one of its members. */
export function withForks(family: Family, answer: RestFamily): Family {
  const members = new Map(family.members);
  const parent = members.get(answer.session_id);
  if (!parent) return family;
  const found = answer.children.filter((child) => !child.deleted).map(relative);
  for (const child of found) if (!members.has(child.id)) members.set(child.id, child);
  const known = new Set(parent.children);
  const children = [...parent.children, ...found.map(({ id }) => id).filter((id) => !known.has(id))];
  members.set(parent.id, { ...parent, children, cursor: answer.next_cursor });
  return { ...family, members };
}

/** The lines of the tree, from the top; below a member only where it is `open`. */
export function rowsOf(family: Family, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const walk = (id: string, level: number, place: number, of: number) => {
    const member = family.members.get(id);
    if (!member) return;
    const leaf = member.children.length === 0 && member.cursor === null;
    const isOpen = open.has(id) && !leaf;
    rows.push({ kind: "session", id, level, place, of, open: leaf ? null : isOpen });
    if (!isOpen) return;
    // Opened for the first time, there is nothing to go on from.
    const more = member.cursor !== null && member.children.length > 0;
    const count = member.children.length + (more ? 1 : 0);
    member.children.forEach((child, index) => walk(child, level + 1, index + 1, count));
    if (more) rows.push({ kind: "more", id, level: level + 1, place: count, of: count });
  };
  walk(family.root, 1, 1, 1);
  return rows;
}
