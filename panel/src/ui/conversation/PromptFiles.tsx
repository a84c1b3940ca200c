// The files of a message that was sent: images to be seen, all to be saved, and what has become of those
// that were removed since.

import { useState } from "react";

import type { Attachment } from "../../client/types";
import { Problem } from "../../client/rest";
import { contentOf, readFile } from "../../client/files";
import { fileSize } from "../../client/words";
import { useToasts } from "../common/Toasts";
import { save } from "../files";
import { FileIcon, SaveIcon } from "../icons";
import { useFiles } from "./useFiles";

/** What a browser draws and never runs. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function PromptFiles({ files }: { files: readonly Attachment[] }) {
  return (
    <ul className="prompt-files" aria-label="Files">
      {files.map((file) => (
        <PromptFile key={file.id} file={file} />
      ))}
    </ul>
  );
}

function PromptFile({ file }: { file: Attachment }) {
  const { sessionId, gone, lost } = useFiles();
  const { fail } = useToasts();
  const [drawn, setDrawn] = useState(IMAGES.has(file.type));
  const { id, name, size } = file;
  if (gone.has(id)) {
    return (
      <li className="file" data-phase="gone">
        <FileIcon />
        <span className="file-words">
          <bdi className="file-name">{name}</bdi>
          <small>Was removed</small>
        </span>
      </li>
    );
  }
  const download = async () => {
    try {
      save(name, await readFile(sessionId, id));
    } catch (problem) {
      if (problem instanceof Problem && (problem.status === 410 || problem.status === 404)) lost(id);
      else fail(problem);
    }
  };
  return (
    <li className="file" data-phase="ready">
      {drawn ? (
        <img
          src={contentOf(sessionId, id)}
          alt=""
          loading="lazy"
          decoding="async"
          onError={() => setDrawn(false)}
        />
      ) : (
        <FileIcon />
      )}
      <span className="file-words">
        <bdi className="file-name">{name}</bdi>
        <small>{fileSize(size)}</small>
      </span>
      <button
        type="button"
        className="button icon-only quiet small"
        aria-label={`Download ${name}`}
        title={`Download ${name}`}
        onClick={() => void download()}
      >
        <SaveIcon />
      </button>
    </li>
  );
}
