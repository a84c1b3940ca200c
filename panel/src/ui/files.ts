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

/** Lets the person choose a file; null when they choose none. */
export function pickFile(): Promise<File | null> {
  return new Promise((resolve) => {
    const input = document.createElement("input");
    input.type = "file";
    input.accept = ".json,application/json";
    input.onchange = () => resolve(input.files?.[0] ?? null);
    input.oncancel = () => resolve(null);
    input.click();
  });
}

export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name.replace(/[^\p{L}\p{N}._ -]+/gu, "_").trim() || "workflow"}.json`;
  link.click();
  // The browser has taken the address by the next task.
  setTimeout(() => URL.revokeObjectURL(url));
}
