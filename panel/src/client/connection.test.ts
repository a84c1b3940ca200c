import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { BACKOFF, Connection, type ConnectionStatus, type Position } from "./connection";
import { Problem } from "./rest";
import type { Command, ServerFrame } from "./types";

/** A socket whose other end is the test. */
class Wire {
  static readonly OPEN = 1;
  static all: Wire[] = [];
  readyState = 0;
  sent: Command[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  constructor(
    readonly url: string,
    readonly offered: string[],
  ) {
    Wire.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Command);
  }

  close(): void {
    this.readyState = 3;
  }

  accept(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  tell(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  drop(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

const newest = (): Wire => Wire.all.at(-1) as Wire;

describe("Connection", () => {
  let position: Position;
  let frames: ServerFrame[];
  let statuses: ConnectionStatus[];
  let connection: Connection;

  beforeEach(() => {
    vi.useFakeTimers();
    Wire.all = [];
    frames = [];
    statuses = [];
    position = { eventSeq: 0, streamEpoch: null };
    connection = new Connection(
      "ws://x/sessions/1/ws",
      {
        frame: (frame) => frames.push(frame),
        status: (status) => statuses.push(status),
        position: () => position,
      },
      Wire as unknown as typeof WebSocket,
    );
    connection.open();
  });

  afterEach(() => vi.useRealTimers());

  it("resumes from the last event after a drop, waiting longer each time", () => {
    newest().accept();
    position = { eventSeq: 7, streamEpoch: "e1" };
    newest().drop();
    expect(statuses.at(-1)).toMatchObject({ phase: "waiting", attempt: 1 });
    vi.advanceTimersByTime(BACKOFF[0] * 1.25);
    expect(newest().url).toBe("ws://x/sessions/1/ws?since=7&epoch=e1");
    newest().drop();
    expect(statuses.at(-1)).toMatchObject({ phase: "waiting", attempt: 2 });
    vi.advanceTimersByTime(BACKOFF[0] * 1.25);
    expect(Wire.all).toHaveLength(2);
    vi.advanceTimersByTime(BACKOFF[1] * 1.25);
    expect(Wire.all).toHaveLength(3);
  });

  it("sends a command without an answer again, under the same requestId", async () => {
    newest().accept();
    const answer = connection.send({ type: "WsClientStopCommand" });
    const first = newest().sent[0];
    newest().drop();
    vi.advanceTimersByTime(BACKOFF[0] * 1.25);
    newest().accept();
    expect(newest().sent).toEqual([first]);
    newest().tell({
      type: "WsServerAckEvent",
      requestId: first?.requestId,
      headId: "h",
      eventSeq: 3,
    });
    await expect(answer).resolves.toMatchObject({ headId: "h" });
  });

  it("throws a refusal as the server's sentence and code, and tells nobody else", async () => {
    newest().accept();
    const answer = connection.send({ type: "WsClientRedoCommand" });
    const requestId = newest().sent[0]?.requestId;
    newest().tell({
      type: "WsServerErrorEvent",
      error: "Nothing to redo",
      code: "nothing_to_redo",
      requestId,
      data: {},
    });
    await expect(answer).rejects.toMatchObject({
      message: "Nothing to redo",
      code: "nothing_to_redo",
    });
    expect(frames).toEqual([]);
  });

  it("asks again for what is missing when an event number is skipped", () => {
    newest().accept();
    position = { eventSeq: 4, streamEpoch: "e1" };
    newest().tell({ type: "WsServerStatusEvent", state: "AVAILABLE", eventSeq: 6 });
    expect(frames).toEqual([]);
    vi.advanceTimersByTime(BACKOFF[0] * 1.25);
    expect(newest().url).toContain("since=4");
  });

  it("does not send again what was too large", async () => {
    newest().accept();
    const answer = connection.send({ type: "WsClientPromptCommand", content: "much" });
    newest().drop(1009);
    await expect(answer).rejects.toMatchObject({ code: "too_large" });
    vi.advanceTimersByTime(BACKOFF[0] * 1.25);
    newest().accept();
    expect(newest().sent).toEqual([]);
  });

  it("gives up, with the reason, when the session is gone", () => {
    newest().accept();
    newest().drop(4410);
    expect(statuses.at(-1)).toMatchObject({ phase: "closed", code: 4410 });
    vi.advanceTimersByTime(60_000);
    expect(Wire.all).toHaveLength(1);
  });
});

describe("Connection with credentials", () => {
  let statuses: ConnectionStatus[];
  let tickets: number;
  let good: boolean;
  let refusal: Problem | null;

  const settle = () => vi.advanceTimersByTimeAsync(0);

  beforeEach(async () => {
    vi.useFakeTimers();
    Wire.all = [];
    statuses = [];
    tickets = 0;
    good = true;
    refusal = null;
    new Connection(
      "ws://x/sessions/1/ws",
      {
        frame: () => undefined,
        status: (status) => statuses.push(status),
        position: () => ({ eventSeq: 0, streamEpoch: null }),
      },
      Wire as unknown as typeof WebSocket,
      {
        ticket: () => {
          tickets += 1;
          return refusal ? Promise.reject(refusal) : Promise.resolve([`ticket.${tickets}`]);
        },
        stillGood: () => Promise.resolve(good),
      },
    ).open();
    await settle();
  });

  afterEach(() => vi.useRealTimers());

  it("offers a new ticket with each connection", async () => {
    expect(newest().offered).toEqual(["turnback.v1", "ticket.1"]);
    newest().drop();
    await vi.advanceTimersByTimeAsync(BACKOFF[0] * 1.25);
    expect(newest().offered).toEqual(["turnback.v1", "ticket.2"]);
  });

  it("stops where the server says that nobody is signed in", async () => {
    good = false;
    newest().accept();
    newest().drop(4401);
    await settle();
    expect(statuses.at(-1)).toMatchObject({ phase: "closed", code: 4401 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(tickets).toBe(1);
  });

  it("tries once more where a ticket came too late, and not for ever", async () => {
    for (const phase of ["waiting", "closed"]) {
      newest().accept();
      newest().drop(4401);
      await settle();
      expect(statuses.at(-1)).toMatchObject({ phase });
      await vi.advanceTimersByTimeAsync(60_000);
    }
    expect(tickets).toBe(2);
  });

  it.each([
    [401, "closed", 4401],
    [404, "closed", 4404],
    [503, "waiting", 1006],
  ])("takes a refusal of the ticket with %i as %s", async (status, phase, code) => {
    refusal = new Problem("No", "x", status);
    newest().drop();
    await vi.advanceTimersByTimeAsync(BACKOFF[0] * 1.25);
    expect(statuses.at(-1)).toMatchObject({ phase, code });
  });
});
