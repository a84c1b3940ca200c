// The REST routes that the panel uses; failures arrive as `Problem`, with the server's own sentence.

import { parseJson } from "./json";
import type {
  Branch,
  OperatorType,
  ProblemBody,
  RestBranches,
  RestPreview,
  RestStep,
  RestStepPage,
  SessionInfo,
  SessionPage,
  Step,
  Workflow,
} from "./types";

/** A refusal or a failure, in words for a person, with the code that the socket uses too. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly code: string,
    readonly status: number,
    readonly data: Record<string, unknown> = {},
  ) {
    super(message);
    this.name = "Problem";
  }

  /** Where in the document, for a workflow that cannot be held. */
  get path(): string | null {
    const path = this.data["path"];
    if (Array.isArray(path)) return path.join(".");
    return typeof path === "string" && path !== "" ? path : null;
  }
}

let signedOut: () => void = () => undefined;

/** Who is told when the server asks for a credential. */
export function onSignedOut(listener: () => void): void {
  signedOut = listener;
}

/** Asks the server; throws its refusal as a `Problem`. `key` makes a retry the same request. */
export async function call(
  method: string,
  path: string,
  body?: string,
  options: { key?: string; keepalive?: boolean } = {},
): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (options.key !== undefined) headers["idempotency-key"] = options.key;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      keepalive: options.keepalive ?? false,
      ...(body === undefined ? {} : { body }),
    });
  } catch {
    throw unreachable();
  }
  if (response.ok) return response;
  throw problemOf(response.status, await response.text());
}

export function unreachable(): Problem {
  return new Problem("The server cannot be reached.", "unreachable", 0);
}

/** What a refusal says; a proxy's own page says no more than its status. */
export function problemOf(status: number, text: string): Problem {
  let problem: Partial<ProblemBody> = {};
  try {
    problem = JSON.parse(text) as Partial<ProblemBody>;
  } catch {
    // Not from our server.
  }
  if (problem.code === "unauthenticated") signedOut();
  return new Problem(
    problem.detail ?? problem.title ?? `The server answered ${status}.`,
    problem.code ?? "http_error",
    status,
    problem.data ?? {},
  );
}

export async function json<T>(
  method: string,
  path: string,
  body?: string,
  options: { key?: string } = {},
): Promise<T> {
  return parseJson(await (await call(method, path, body, options)).text()) as T;
}

/** A session's path. */
export function session(id: string): string {
  return `/sessions/${encodeURIComponent(id)}`;
}

export function listSessions(options: {
  query?: string;
  archived?: boolean;
  cursor?: string | null;
}): Promise<SessionPage> {
  const query = new URLSearchParams({ limit: "50" });
  if (options.query) query.set("q", options.query);
  if (options.archived) query.set("archived", "true");
  if (options.cursor) query.set("cursor", options.cursor);
  return json("GET", `/sessions?${query}`);
}

/** Creates a session. `workflowText` is a file's own text, sent as it is, so that no number changes. */
export function createSession(options: {
  name?: string;
  workflowText?: string;
}): Promise<SessionInfo> {
  const members: string[] = [];
  if (options.name) members.push(`"name":${JSON.stringify(options.name)}`);
  if (options.workflowText !== undefined) members.push(`"workflow":${options.workflowText}`);
  return json("POST", "/sessions", `{${members.join(",")}}`);
}

export function patchSession(
  id: string,
  change: { name?: string; archived?: boolean },
): Promise<SessionInfo> {
  return json("PATCH", session(id), JSON.stringify(change));
}

export async function deleteSession(id: string): Promise<void> {
  await call("DELETE", session(id));
}

/** The workflow at HEAD as the server's own bytes, for saving. */
export async function workflowText(id: string): Promise<string> {
  return (await call("GET", `${session(id)}/workflow`)).text();
}

export async function workflowAt(id: string, stepId: string): Promise<Workflow> {
  const path = `${session(id)}/steps/${encodeURIComponent(stepId)}/workflow?side=after`;
  return json("GET", path);
}

/** A page of a path, oldest first: before a step, to a step, or, with neither, to HEAD. */
export async function getSteps(
  id: string,
  from: { before?: string | null; at?: string | null } = {},
): Promise<{ steps: Step[]; cursor: string | null }> {
  const query = new URLSearchParams({ limit: "200" });
  if (from.before) query.set("before", from.before);
  if (from.at) query.set("at", from.at);
  const page = await json<RestStepPage>("GET", `${session(id)}/steps?${query}`);
  return { steps: page.steps.map(stepFromRest), cursor: page.next_cursor };
}

/** A page of every line's steps, the newest first of pages; `before` is the cursor of the page before. */
export async function getEveryStep(
  id: string,
  before: string | null,
): Promise<{ steps: Step[]; cursor: string | null }> {
  const query = new URLSearchParams({ all: "true", limit: "200" });
  if (before !== null) query.set("before", before);
  const page = await json<RestStepPage>("GET", `${session(id)}/steps?${query}`);
  return { steps: page.steps.map(stepFromRest), cursor: page.next_cursor };
}

export async function getBranches(id: string): Promise<Branch[]> {
  const found: RestBranches["branches"] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `?${new URLSearchParams({ cursor })}`;
    const page: RestBranches = await json("GET", `${session(id)}/branches${query}`);
    found.push(...page.branches);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return found.map((branch) => ({
    stepId: branch.step_id,
    parentId: branch.parent_id,
    tip: branch.tip,
    content: branch.content,
    turns: branch.turns,
  }));
}

/** What a revert would take back, and the workflow that it would lead to. Changes nothing. */
export async function revertPreview(
  id: string,
  target: { turnId: string } | { stepId: string },
): Promise<{ preview: RestPreview; workflow: Workflow }> {
  const query = new URLSearchParams(
    "turnId" in target ? { turn_id: target.turnId } : { step_id: target.stepId },
  );
  const preview = await json<RestPreview>("GET", `${session(id)}/revert-preview?${query}`);
  return { preview, workflow: await workflowAt(id, preview.target_head_id) };
}

export async function operatorTypes(): Promise<OperatorType[]> {
  const body = await json<{ types: OperatorType[] }>("GET", "/operator-types");
  return body.types;
}

/** A step as frames have it, from REST's names. What tools took and gave keeps its own. */
export function stepFromRest({ turn_id, record_index, ...members }: RestStep): Step {
  return { ...camel(members), messageId: turn_id, stepId: record_index } as unknown as Step;
}

function camel(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      renamedInside(name, value),
    ]),
  );
}

function renamedInside(name: string, value: unknown): unknown {
  if (name === "tool_calls" || name === "tool_results") {
    return (value as Record<string, unknown>[] | null)?.map(camel);
  }
  return name === "usage" && value !== null ? camel(value as Record<string, unknown>) : value;
}
