import { beforeEach, describe, expect, it } from "vitest";

import { Problem } from "./rest";
import { uploadObstacle, Uploads, type Carry, type Upload } from "./uploads";

const LIMITS = { max_attachment_bytes: 10, max_prompt_attachments: 3 };

function file(name: string, size = 1): File {
  return new File(["x".repeat(size)], name);
}

interface Carried {
  path: string;
  progress: (part: number) => void;
  signal: AbortSignal;
  arrive: (id: string) => void;
  fail: (sentence: string) => void;
}

const settle = () => new Promise((resolve) => setTimeout(resolve));

describe("Uploads", () => {
  let carried: Carried[];
  let kept: Upload[];
  let uploads: Uploads;

  const carry: Carry = (path, _file, _key, progress, signal) =>
    new Promise((resolve, reject) => {
      carried.push({
        path,
        progress,
        signal,
        arrive: (id) => resolve({ id }),
        fail: (sentence) => reject(new Problem(sentence, "x", 500)),
      });
    });
  const make = () =>
    new Uploads("s", () => LIMITS, { read: () => kept, write: (list) => (kept = list) }, carry);

  beforeEach(() => {
    carried = [];
    kept = [];
    uploads = make();
  });

  it("sends one after the other and says how far it is", async () => {
    uploads.add([file("a b.csv"), file("c.csv")]);
    expect(carried.map((one) => one.path)).toEqual(["/sessions/s/attachments?name=a%20b.csv"]);
    carried[0]?.progress(0.5);
    expect(uploads.all().map(({ phase, part }) => [phase, part])).toEqual([
      ["sending", 0.5],
      ["waiting", 0],
    ]);
    expect(uploadObstacle(uploads.all())).toBe("A file is still being uploaded");
    carried[0]?.arrive("1");
    await settle();
    carried[1]?.arrive("2");
    await settle();
    expect(uploads.all().map(({ id }) => id)).toEqual(["1", "2"]);
    expect(uploadObstacle(uploads.all())).toBeNull();
  });

  it("does not begin what is over a limit, and says which", () => {
    uploads.add([file("large", 11), file("a"), file("b"), file("c")]);
    expect(uploads.all().map(({ problem }) => problem)).toEqual([
      "Larger than 10 bytes",
      null,
      null,
      "A message may have 3 files",
    ]);
    expect(carried).toHaveLength(1);
    expect(uploadObstacle(uploads.all())).toBe("Remove the file that was not uploaded");
  });

  it("breaks off what is taken away, and goes on with the next", async () => {
    uploads.add([file("a"), file("b")]);
    const first = uploads.all()[0]?.key ?? "";
    await uploads.remove(first);
    expect(carried[0]?.signal.aborted).toBe(true);
    carried[0]?.fail("broken off");
    await settle();
    expect(uploads.all().map(({ name, phase }) => [name, phase])).toEqual([["b", "sending"]]);
  });

  it("can be tried again after a failure", async () => {
    uploads.add([file("a")]);
    carried[0]?.fail("No room");
    await settle();
    const key = uploads.all()[0]?.key ?? "";
    expect(uploads.all()[0]).toMatchObject({ phase: "failed", problem: "No room" });
    uploads.retry(key);
    carried[1]?.arrive("1");
    await settle();
    expect(uploads.all()[0]).toMatchObject({ phase: "ready", id: "1", problem: null });
  });

  it("keeps what is ready over a reload, until a prompt has taken it", async () => {
    uploads.add([file("a"), file("b")]);
    carried[0]?.arrive("1");
    await settle();
    const again = make();
    expect(again.all().map(({ name, id }) => [name, id])).toEqual([["a", "1"]]);
    again.taken(["1"]);
    expect(kept).toEqual([]);
  });
});
