// The demo world, over REST: things by kind and id, which a person changes as somebody outside would.

import { call, json } from "./rest";
import { words } from "./words";

export interface Thing {
  id: string;
  fields: Record<string, unknown>;
}

export interface Part {
  kind: string;
  heading: string;
  /** The fields of which a thing's short line is made. */
  line: readonly string[];
  /** What has reached a person is looked at alone. */
  fixed?: true;
}

export const PARTS: readonly Part[] = [
  { kind: "contact", heading: "Contacts", line: ["name"] },
  { kind: "event", heading: "Calendar", line: ["title", "start"] },
  { kind: "invitation", heading: "Invitations", line: ["email", "status"] },
  { kind: "email", heading: "Mailbox", line: ["subject", "status"] },
  { kind: "charge", heading: "Card charges", line: ["to", "amount", "status"] },
  { kind: "transfer", heading: "Bank transfers", line: ["to", "amount"] },
  { kind: "channel", heading: "Chat channels", line: ["name"] },
  { kind: "message", heading: "Chat messages", line: ["text"] },
  { kind: "text", heading: "Text messages", line: ["text"] },
  { kind: "delivery", heading: "What has reached people", line: ["to", "what", "about"], fixed: true },
];

/** How the tools of the demo's server begin, as models call them; no other server has its name. */
const TOOLS = "demo__";

/** Whether the demo world is there, by the names of the tools outside. */
export function hasWorld(tools: Iterable<string>): boolean {
  for (const name of tools) if (name.startsWith(TOOLS)) return true;
  return false;
}

const path = (kind: string, id: string) => `/demo/${kind}/${encodeURIComponent(id)}`;

export type World = Readonly<Record<string, readonly Thing[]>>;

export async function getWorld(): Promise<World> {
  const found = await Promise.all(
    PARTS.map(async ({ kind }) => {
      const { things } = await json<{ things: Thing[] }>("GET", `/demo/${kind}`);
      return [kind, things] as const;
    }),
  );
  return Object.fromEntries(found);
}

export async function changeThing(
  kind: string,
  id: string,
  changes: Thing["fields"],
): Promise<void> {
  await call("PATCH", path(kind, id), JSON.stringify({ changes }));
}

export async function deleteThing(kind: string, id: string): Promise<void> {
  await call("DELETE", path(kind, id));
}

/** Makes a thing again, with the id and the fields that it had: another one in its place. */
export async function makeThing(kind: string, { id, fields }: Thing): Promise<void> {
  await call("PUT", path(kind, id), JSON.stringify({ fields }));
}

/** A thing in one line. */
export function lineOf(part: Part, { id, fields }: Thing): string {
  const said = part.line.map((name) => told(fields[name])).filter((text) => text !== "");
  return said.length === 0 ? id : said.join(" · ");
}

export function fieldLabel(name: string): string {
  const text = words(name);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A field's value as it is written in its input: text as it is, anything else as JSON. */
export function told(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * The fields that were written otherwise, as they are to be set; null where one cannot be read as
 * what the field holds now.
 */
export function changesOf(
  fields: Thing["fields"],
  written: Readonly<Record<string, string>>,
): Thing["fields"] | null {
  const changes: Thing["fields"] = {};
  for (const [name, text] of Object.entries(written)) {
    const now = fields[name];
    if (text === told(now)) continue;
    if (typeof now === "string" || now === undefined) {
      changes[name] = text;
      continue;
    }
    try {
      const value: unknown = JSON.parse(text);
      if (kindOf(value) !== kindOf(now)) return null;
      changes[name] = value;
    } catch {
      return null;
    }
  }
  return changes;
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? "list" : value === null ? "null" : typeof value;
}
