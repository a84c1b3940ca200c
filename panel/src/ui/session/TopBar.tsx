// The bar over a session: where one is, which pane is shown, and saving.

import { useState } from "react";

import { AccountMenu } from "../account/AccountMenu";
import { EditableName } from "../common/EditableName";
import { Logo } from "../common/Logo";
import { Menu, type MenuItem } from "../common/Menu";
import { ThemeToggle } from "../common/ThemeToggle";
import { FamilyIcon, HistoryIcon, KeysIcon, SaveIcon, SettingsIcon, ShareIcon, WorldIcon } from "../icons";
import { navigate } from "../router";

export function TopBar({
  name,
  ready,
  pane,
  onPane,
  onRename,
  renamable,
  onSave,
  onSettings,
  onShare,
  onFamily,
  onHistory,
  onHelp,
  onWorld,
  worldOpen,
}: {
  name: string;
  ready: boolean;
  pane: "canvas" | "conversation";
  onPane: (pane: "canvas" | "conversation") => void;
  onRename: (name: string) => void;
  /** Whether this person may give it another name. */
  renamable: boolean;
  onSave: () => void;
  onSettings: () => void;
  onShare: () => void;
  onFamily: () => void;
  onHistory: () => void;
  onHelp: () => void;
  /** Null where there is no demo world. */
  onWorld: (() => void) | null;
  worldOpen: boolean;
}) {
  const [editing, setEditing] = useState(false);
  const loading = ready ? null : "The session is still loading";
  const sheets: MenuItem[] = [
    {
      label: "Settings",
      detail: "Its name, who sees it, what its runs are held to",
      icon: <SettingsIcon />,
      blocked: loading,
      onSelect: onSettings,
    },
    {
      label: "Share",
      detail: "Who may read it and write in it",
      icon: <ShareIcon />,
      blocked: loading,
      onSelect: onShare,
    },
    {
      label: "Family",
      detail: "What it was forked from, and its forks",
      icon: <FamilyIcon />,
      blocked: loading,
      onSelect: onFamily,
    },
    {
      label: "Keyboard shortcuts",
      detail: "Keys that work on this page (?)",
      icon: <KeysIcon />,
      onSelect: onHelp,
    },
  ];
  return (
    <header className="top-bar">
      <a
        className="home"
        href="/"
        aria-label="All sessions"
        title="All sessions"
        onClick={(event) => {
          event.preventDefault();
          navigate("/");
        }}
      >
        <Logo />
      </a>
      <h1 className="session-name">
        {ready && renamable ? (
          <EditableName
            name={name}
            label="Session name"
            editing={editing}
            onEditing={setEditing}
            onRename={onRename}
          />
        ) : name === "" ? (
          <span className="sr-only">A session that is loading</span>
        ) : (
          <bdi className="name-fixed">{name}</bdi>
        )}
      </h1>
      <div className="segmented panes-switch" role="group" aria-label="Pane">
        <button
          type="button"
          aria-pressed={pane === "conversation"}
          onClick={() => onPane("conversation")}
        >
          Conversation
        </button>
        <button type="button" aria-pressed={pane === "canvas"} onClick={() => onPane("canvas")}>
          Canvas
        </button>
      </div>
      <div className="top-actions">
        <button
          type="button"
          className="button"
          onClick={onSave}
          disabled={!ready}
          title="Download the workflow as a file"
        >
          <SaveIcon />
          Save workflow
        </button>
        {onWorld && (
          <button
            type="button"
            className="button icon-only quiet"
            onClick={onWorld}
            title="Demo world: what the agent’s calls outside have done"
            aria-label="Demo world"
            aria-expanded={worldOpen}
          >
            <WorldIcon />
          </button>
        )}
        <button
          type="button"
          className="button icon-only quiet"
          onClick={onHistory}
          disabled={!ready}
          title="History: every line and step, and what each did outside"
          aria-label="History"
        >
          <HistoryIcon />
        </button>
        {sheets.map(({ label, detail, icon, blocked, onSelect }) => (
          <button
            key={label}
            type="button"
            className="button icon-only quiet where-wide"
            onClick={onSelect}
            disabled={blocked != null}
            title={`${label}: ${detail}`}
            aria-label={label}
          >
            {icon}
          </button>
        ))}
        <span className="where-narrow">
          <Menu label="More of this session" items={sheets} />
        </span>
        <ThemeToggle />
        <AccountMenu />
      </div>
    </header>
  );
}
