// Files on their way to a session: chosen, sent one after the other, and then named by the next prompt.
// Without React; a list of what is there, told to who draws it.

import { newRequestId } from "./connection";
import { call, problemOf, session, unreachable, type Problem } from "./rest";
import { fileSize } from "./words";

export interface FileLimits {
  max_attachment_bytes: number;
  max_prompt_attachments: number;
}

export interface Upload {
  /** Of the page's own making. */
  key: string;
  name: string;
  size: number;
  phase: "waiting" | "sending" | "ready" | "failed";
  /** The part that the server has, from 0 to 1. */
  part: number;
  /** The server's, once it is there. */
  id: string | null;
  /** Why it cannot be sent. */
  problem: string | null;
}

/** How a file gets to the server: hears of progress, can be broken off. */
export type Carry = (
  path: string,
  file: Blob,
  key: string,
  progress: (part: number) => void,
  signal: AbortSignal,
) => Promise<{ id: string }>;

interface Held {
  file: Blob | null;
  abort: AbortController;
}

/** Where what is ready is kept over a reload. */
export interface Kept {
  read(): Upload[];
  write(uploads: Upload[]): void;
}

export class Uploads {
  private list: readonly Upload[];
  private readonly held = new Map<string, Held>();
  private readonly listeners = new Set<() => void>();
  private busy = false;

  constructor(
    private readonly sessionId: string,
    private readonly limits: () => FileLimits | null,
    private readonly kept: Kept,
    private readonly carry: Carry = carryByXhr,
  ) {
    this.list = kept.read();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly all = (): readonly Upload[] => this.list;

  add(files: readonly File[]): void {
    const limits = this.limits();
    let room = (limits?.max_prompt_attachments ?? Infinity) - this.list.length;
    const added = files.map((file): Upload => {
      const problem = refusal(file, limits, room);
      room -= 1;
      const key = newRequestId();
      if (problem === null) this.held.set(key, { file, abort: new AbortController() });
      return {
        key,
        name: file.name || "pasted file",
        size: file.size,
        phase: problem === null ? "waiting" : "failed",
        part: 0,
        id: null,
        problem,
      };
    });
    this.become([...this.list, ...added]);
    void this.next();
  }

  /** Takes one away: breaks it off, or removes it from the server as well. */
  async remove(key: string): Promise<void> {
    const upload = this.list.find((one) => one.key === key);
    if (!upload) return;
    this.held.get(key)?.abort.abort();
    this.held.delete(key);
    this.become(this.list.filter((one) => one.key !== key));
    if (upload.id !== null) {
      await call("DELETE", `${session(this.sessionId)}/attachments/${upload.id}`);
    }
  }

  /** Sends one that has failed on the way again. */
  retry(key: string): void {
    if (!this.held.has(key)) return;
    this.change(key, { phase: "waiting", part: 0, problem: null });
    void this.next();
  }

  /** Whether this one can be tried again. */
  canRetry(key: string): boolean {
    return this.held.has(key);
  }

  /** A prompt has taken these: they are its. */
  taken(ids: readonly string[]): void {
    this.become(this.list.filter(({ id }) => id === null || !ids.includes(id)));
  }

  /** One after the other, so that what else the page asks for does not wait behind them. */
  private async next(): Promise<void> {
    if (this.busy) return;
    const upload = this.list.find((one) => one.phase === "waiting");
    const held = upload && this.held.get(upload.key);
    if (!upload || !held?.file) return;
    const { key, name } = upload;
    this.busy = true;
    this.change(key, { phase: "sending" });
    try {
      const path = `${session(this.sessionId)}/attachments?name=${encodeURIComponent(name)}`;
      const { id } = await this.carry(
        path,
        held.file,
        key,
        (part) => this.change(key, { part }),
        held.abort.signal,
      );
      // Taken away while the answer was on its way: nobody will name it.
      if (!this.list.some((one) => one.key === key)) {
        void call("DELETE", `${session(this.sessionId)}/attachments/${id}`).catch(() => undefined);
      }
      this.held.delete(key);
      this.change(key, { phase: "ready", part: 1, id });
    } catch (error) {
      this.change(key, { phase: "failed", problem: (error as Problem).message });
    }
    this.busy = false;
    void this.next();
  }

  private change(key: string, change: Partial<Upload>): void {
    this.become(this.list.map((one) => (one.key === key ? { ...one, ...change } : one)));
  }

  private become(list: readonly Upload[]): void {
    this.list = list;
    this.kept.write(list.filter((one) => one.phase === "ready"));
    for (const listener of this.listeners) listener();
  }
}

/** Why a message with these files cannot be sent yet; null where it can. */
export function uploadObstacle(uploads: readonly Upload[]): string | null {
  if (uploads.some((one) => one.phase === "failed")) return "Remove the file that was not uploaded";
  if (uploads.some((one) => one.phase !== "ready")) return "A file is still being uploaded";
  return null;
}

function refusal(file: File, limits: FileLimits | null, room: number): string | null {
  if (limits === null) return null;
  if (room <= 0) return `A message may have ${limits.max_prompt_attachments} files`;
  if (file.size > limits.max_attachment_bytes) {
    return `Larger than ${fileSize(limits.max_attachment_bytes)}`;
  }
  return null;
}

/** `fetch` tells nothing of what has been sent so far. */
const carryByXhr: Carry = (path, file, key, progress, signal) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.setRequestHeader("idempotency-key", key);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    };
    request.onload = () => {
      if (request.status === 201) resolve(JSON.parse(request.responseText) as { id: string });
      else reject(problemOf(request.status, request.responseText));
    };
    request.onerror = () => reject(unreachable());
    signal.addEventListener("abort", () => {
      request.abort();
      reject(unreachable());
    });
    request.send(file);
  });
