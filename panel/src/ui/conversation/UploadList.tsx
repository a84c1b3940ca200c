// The files of the message that is being written: how far each is, and what is wrong with it.

import type { Upload, Uploads } from "../../client/uploads";
import { fileSize } from "../../client/words";
import { CloseButton } from "../common/CloseButton";
import { FileIcon } from "../icons";

export function UploadList({
  uploads,
  list,
  onProblem,
}: {
  uploads: Uploads;
  list: readonly Upload[];
  onProblem: (problem: unknown) => void;
}) {
  if (list.length === 0) return null;
  return (
    <ul className="uploads" aria-label="Files for this message">
      {list.map((upload) => (
        <li key={upload.key} className="file" data-phase={upload.phase}>
          <FileIcon />
          <span className="file-words">
            <bdi className="file-name">{upload.name}</bdi>
            <small role={upload.phase === "failed" ? "alert" : undefined}>{words(upload)}</small>
            {(upload.phase === "sending" || upload.phase === "waiting") && (
              <progress value={upload.part} max={1} aria-label={`Uploading ${upload.name}`} />
            )}
          </span>
          {upload.phase === "failed" && uploads.canRetry(upload.key) && (
            <button type="button" className="link" onClick={() => uploads.retry(upload.key)}>
              Try again
            </button>
          )}
          <CloseButton
            label={`${upload.phase === "sending" ? "Cancel" : "Remove"} ${upload.name}`}
            onClose={() => void uploads.remove(upload.key).catch(onProblem)}
          />
        </li>
      ))}
    </ul>
  );
}

function words({ phase, part, size, problem }: Upload): string {
  switch (phase) {
    case "waiting":
      return `${fileSize(size)}, waiting`;
    case "sending":
      return `${Math.round(part * 100)} % of ${fileSize(size)}`;
    case "ready":
      return fileSize(size);
    case "failed":
      return problem ?? "It was not uploaded";
  }
}
