// The page's beginning.

import "@fontsource-variable/atkinson-hyperlegible-next/wght.css";
import "@fontsource-variable/atkinson-hyperlegible-next/wght-italic.css";
import "@fontsource-variable/atkinson-hyperlegible-mono/wght.css";
import "@xyflow/react/dist/base.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/overlays.css";
import "./styles/list.css";
import "./styles/session.css";
import "./styles/canvas.css";
import "./styles/nodes.css";
import "./styles/panels.css";
import "./styles/conversation.css";
import "./styles/turn.css";
import "./styles/lines.css";
import "./styles/family.css";
import "./styles/history.css";
import "./styles/access.css";
import "./styles/composer.css";
import "./styles/files.css";
import "./styles/preview.css";
import "./styles/undo.css";
import "./styles/world.css";

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./ui/App";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no `#root`");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
