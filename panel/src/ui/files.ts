// Workflow files: reading one from the person's disk, and saving one there.

import { Problem } from "../client/rest";

export interface WorkflowFile {
  name: string;
  /** The file's own text; it is sent as it is, so that nothing of it changes. */
  text: string;
}

/** Reads a file that should hold a workflow; throws a `Problem` with a sentence when it cannot. */
export async function readWorkflowFile(file: File): Promise<WorkflowFile> {
  const text = (await file.text()).replace(/^\uFEFF/, "");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const where = error instanceof Error ? error.message : String(error);
    throw new Problem(`“${file.name}” is not JSON: ${where}`, "invalid_workflow", 0);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Problem(`“${file.name}” does not hold a workflow object.`, "invalid_workflow", 0);
  }
  return { name: file.name.replace(/\.json$/i, ""), text };
}

/** Lets the person choose a workflow's file; null when they choose none. */
export async function pickFile(): Promise<File | null> {
  const [file] = await pick(".json,application/json", false);
  return file ?? null;
}

/** Lets the person choose any files. */
export function pickFiles(): Promise<File[]> {
  return pick("", true);
}

function pick(accept: string, multiple: boolean): Promise<File[]> {
  return new Promise((resolve) => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = accept;
    input.multiple = multiple;
    input.onchange = () => resolve([...(input.files ?? [])]);
    input.oncancel = () => resolve([]);
    input.click();
  });
}

export function download(name: string, text: string): void {
  const file = `${name.replace(/[^\p{L}\p{N}._ -]+/gu, "_").trim() || "workflow"}.json`;
  save(file, new Blob([text], { type: "application/json" }));
}

/** Hands a file to the browser, to be saved on the person's disk. */
export function save(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has taken the address by the next task.
  setTimeout(() => URL.revokeObjectURL(url));
}
