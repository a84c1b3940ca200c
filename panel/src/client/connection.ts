// One session's socket: connects, reconnects with a growing pause, resumes where it was, and turns
// each command into a promise of its answer. It knows frames but nothing of what they mean.

import { parseJson } from "./json";
import { Problem } from "./rest";
import type { AckEvent, Command, ServerFrame } from "./types";

export const SUBPROTOCOL = "turnback.v1";

/** Pauses before each new try, in milliseconds; the last one repeats. */
export const BACKOFF = [300, 700, 1_500, 3_000, 6_000, 10_000] as const;
/** How long an answer may take before the command counts as lost, in milliseconds. */
export const ANSWER_TIMEOUT = 30_000;

export type ConnectionStatus =
  | { phase: "connecting" }
  | { phase: "open" }
  /**
   * `attempt` counts from 1; `retryAt` is a time in milliseconds, null while a try is under way;
   * `code` is the first close's, whose reason lasts until it is open again.
   */
  | { phase: "waiting"; attempt: number; retryAt: number | null; code: number }
  /** No further tries: the reason is a sentence for a person. */
  | { phase: "closed"; code: number; reason: string };

const TOO_LARGE = 1009;
const UNAUTHENTICATED = 4401;
const NOT_FOUND = 4404;

const FINAL: Readonly<Record<number, string>> = {
  4401: "Your sign-in has ended. Sign in again.",
  4403: "You may no longer read this session: it was taken back, or made private.",
  4404: "There is no such session. If you were sent here, ask to be let in.",
  4410: "This session has been deleted.",
};

/** What a resumed connection names: the last event seen, and the stream it belongs to. */
export interface Position {
  eventSeq: number;
  streamEpoch: string | null;
}

export interface Handlers {
  frame(frame: ServerFrame): void;
  status(status: ConnectionStatus): void;
  /** Where to resume; `streamEpoch: null` asks for a snapshot. */
  position(): Position;
}

/** How a socket shows who it is; none where nobody has to. */
export interface Credentials {
  /** Subprotocols to offer beside ours: a ticket, a new one each time. Throws the refusal. */
  ticket(): Promise<string[]>;
  /** Whether this is still somebody who may connect; asked when the server has said no. */
  stillGood(): Promise<boolean>;
}

interface Waiting {
  command: Command;
  resolve: (ack: AckEvent) => void;
  reject: (problem: Problem) => void;
  timer: ReturnType<typeof setTimeout>;
}

export class Connection {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private lostBy = 0;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private stopped = false;
  /** Tries since the last frame that the server closed for want of a credential. */
  private refused = 0;
  private gapAt: number | null = null;
  private asking = false;
  private readonly waiting = new Map<string, Waiting>();

  constructor(
    private readonly url: string,
    private readonly handlers: Handlers,
    private readonly WebSocketClass: typeof WebSocket = WebSocket,
    private readonly credentials: Credentials | null = null,
  ) {}

  /** Connects, and keeps connected; while that is so, a second call does nothing. */
  open(): void {
    if (this.socket !== null || this.retry !== null || this.asking) return;
    this.stopped = false;
    this.connect();
  }

  /** Closes for good; commands without an answer are refused. */
  close(): void {
    this.stopped = true;
    this.clearRetry();
    this.socket?.close(1000);
    this.socket = null;
    this.refuseAll(new Problem("The page has left this session.", "closed", 0));
  }

  /** Tries again now rather than when the pause is over. */
  retryNow(): void {
    if (this.stopped || this.retry === null) return;
    this.clearRetry();
    this.connect();
  }

  /**
   * Sends a command and gives its acknowledgement, or throws the server's refusal as a `Problem`.
   * Over a lost connection the same command, with the same `requestId`, is sent again: the server
   * answers it again without running it again.
   */
  send(command: Command): Promise<AckEvent> {
    const requestId = command.requestId ?? newRequestId();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(requestId);
        reject(new Problem("The server has not answered. Look before trying again.", "timeout", 0));
      }, ANSWER_TIMEOUT);
      const entry = { command: { ...command, requestId }, resolve, reject, timer };
      this.waiting.set(requestId, entry);
      if (this.socket?.readyState === this.WebSocketClass.OPEN) this.transmit(entry.command);
    });
  }

  private connect(): void {
    this.handlers.status(
      this.attempt === 0
        ? { phase: "connecting" }
        : { phase: "waiting", attempt: this.attempt, retryAt: null, code: this.lostBy },
    );
    if (this.credentials === null) return this.attach([]);
    this.asking = true;
    this.credentials.ticket().then(
      (offered) => {
        this.asking = false;
        if (!this.stopped) this.attach(offered);
      },
      (problem: Problem) => {
        this.asking = false;
        if (problem.status === 401) this.end(UNAUTHENTICATED);
        else if (problem.status === 404) this.end(NOT_FOUND);
        else this.lost(1006);
      },
    );
  }

  private attach(offered: string[]): void {
    const { eventSeq, streamEpoch } = this.handlers.position();
    const query = new URLSearchParams();
    if (streamEpoch !== null) {
      query.set("since", String(eventSeq));
      query.set("epoch", streamEpoch);
    }
    const search = query.size ? `?${query}` : "";
    const socket = new this.WebSocketClass(this.url + search, [SUBPROTOCOL, ...offered]);
    this.socket = socket;
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.attempt = 0;
      this.handlers.status({ phase: "open" });
      for (const { command } of this.waiting.values()) this.transmit(command);
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      if (this.socket === socket) this.receive(parseJson(event.data) as ServerFrame);
    };
    socket.onclose = (event) => {
      if (this.socket === socket) this.lost(event.code);
    };
  }

  private transmit(command: Command): void {
    this.socket?.send(JSON.stringify(command));
  }

  private receive(frame: ServerFrame): void {
    if (frame.type === "WsServerAckEvent" || frame.type === "WsServerErrorEvent") {
      const waiting = frame.requestId ? this.take(frame.requestId) : null;
      if (waiting && frame.type === "WsServerAckEvent") return waiting.resolve(frame);
      if (waiting && frame.type === "WsServerErrorEvent") {
        return waiting.reject(new Problem(frame.error, frame.code, 0, frame.data));
      }
    } else if (frame.type !== "WsServerSnapshotEvent" && "eventSeq" in frame && frame.eventSeq) {
      const { eventSeq } = this.handlers.position();
      // The numbers are dense: a hole means a lost frame. Ask once for what is missing.
      if (frame.eventSeq > eventSeq + 1 && this.gapAt !== eventSeq) {
        this.gapAt = eventSeq;
        this.socket?.close(1000);
        this.lost(1000);
        return;
      }
    }
    if (frame.type !== "WsServerErrorEvent") this.refused = 0;
    this.handlers.frame(frame);
  }

  /** Closes for good, with the reason of the code. */
  private end(code: number): void {
    if (this.stopped) return;
    this.stopped = true;
    const reason = FINAL[code] ?? "The server has closed the connection for good.";
    this.refuseAll(new Problem(reason, "closed", 0));
    this.handlers.status({ phase: "closed", code, reason });
  }

  /** A ticket may have come too late; whoever is still signed in gets another, once. */
  private async askAgain(credentials: Credentials): Promise<void> {
    this.refused += 1;
    const good = this.refused === 1 && (await credentials.stillGood());
    if (good) this.lost(1006);
    else this.end(UNAUTHENTICATED);
  }

  private lost(code: number): void {
    this.socket = null;
    if (this.stopped) return;
    if (code === UNAUTHENTICATED && this.credentials !== null) {
      void this.askAgain(this.credentials);
      return;
    }
    if (FINAL[code] !== undefined) return this.end(code);
    const pause = BACKOFF[Math.min(this.attempt, BACKOFF.length - 1)] ?? 0;
    if (code === TOO_LARGE) {
      // Sent again, it would close the next socket too.
      this.refuseAll(new Problem("This is larger than the server takes.", "too_large", 0));
    }
    // Spread the tries of many pages after one restart.
    const delay = pause * (0.75 + Math.random() / 2);
    if (this.attempt === 0) this.lostBy = code;
    this.attempt += 1;
    this.handlers.status({
      phase: "waiting",
      attempt: this.attempt,
      retryAt: Date.now() + delay,
      code: this.lostBy,
    });
    this.retry = setTimeout(() => {
      this.retry = null;
      this.connect();
    }, delay);
  }

  private take(requestId: string): Waiting | null {
    const waiting = this.waiting.get(requestId) ?? null;
    if (waiting) {
      clearTimeout(waiting.timer);
      this.waiting.delete(requestId);
    }
    return waiting;
  }

  private refuseAll(problem: Problem): void {
    for (const requestId of [...this.waiting.keys()]) this.take(requestId)?.reject(problem);
  }

  private clearRetry(): void {
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = null;
  }
}

export function newRequestId(): string {
  // `randomUUID` exists only in secure contexts; these bytes exist everywhere.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
