// The icons, drawn on a 20-unit grid with one stroke.

import type { ReactNode } from "react";

function icon(name: string, children: ReactNode) {
  function Icon() {
    return (
      <svg className="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
        {children}
      </svg>
    );
  }
  Icon.displayName = name;
  return Icon;
}

export const PlusIcon = icon("PlusIcon", <path d="M10 4v12M4 10h12" />);
export const CloseIcon = icon("CloseIcon", <path d="m5 5 10 10M15 5 5 15" />);
export const CheckIcon = icon("CheckIcon", <path d="m4 10.5 4 4 8-9" />);
export const RevertIcon = icon(
  "RevertIcon",
  <path d="M3.5 7.5H12a4.5 4.5 0 0 1 0 9H8M7 3.5l-4 4 4 4" />,
);
export const RedoIcon = icon(
  "RedoIcon",
  <path d="M16.5 7.5H8a4.5 4.5 0 0 0 0 9h4M13 3.5l4 4-4 4" />,
);
export const SendIcon = icon("SendIcon", <path d="M10 16.5v-13M4.5 9 10 3.5 15.5 9" />);
export const StopIcon = icon(
  "StopIcon",
  <rect x="5" y="5" width="10" height="10" rx="2" fill="currentColor" stroke="none" />,
);
export const SunIcon = icon(
  "SunIcon",
  <>
    <circle cx="10" cy="10" r="3.5" />
    <path d="M10 1.8v2M10 16.2v2M1.8 10h2M16.2 10h2M4.2 4.2l1.4 1.4M14.4 14.4l1.4 1.4M4.2 15.8l1.4-1.4M14.4 5.6l1.4-1.4" />
  </>,
);
export const MoonIcon = icon("MoonIcon", <path d="M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5Z" />);
export const SearchIcon = icon(
  "SearchIcon",
  <>
    <circle cx="9" cy="9" r="5.5" />
    <path d="m13.2 13.2 3.8 3.8" />
  </>,
);
export const OpenIcon = icon(
  "OpenIcon",
  <path d="M2.5 15.5v-11h5l2 2.2h7v2.3M2.5 15.5l2.6-6.5h13l-2.6 6.5z" />,
);
export const SaveIcon = icon("SaveIcon", <path d="M10 3v9.5M5.8 8.8 10 13l4.2-4.2M3.5 16.5h13" />);
export const MoreIcon = icon(
  "MoreIcon",
  <g fill="currentColor" stroke="none">
    <circle cx="4.5" cy="10" r="1.5" />
    <circle cx="10" cy="10" r="1.5" />
    <circle cx="15.5" cy="10" r="1.5" />
  </g>,
);
export const NoteIcon = icon(
  "NoteIcon",
  <path d="M3.5 3.5h13v8.5l-4.5 4.5H3.5zM12 16.5V12h4.5M6.5 7.2h7M6.5 10h3.5" />,
);
export const TrashIcon = icon(
  "TrashIcon",
  <path d="M3.5 5.5h13M8 5V3.2h4V5M5.2 5.5l.7 11h8.2l.7-11M8.3 8.5v5M11.7 8.5v5" />,
);
export const PencilIcon = icon("PencilIcon", <path d="m3.5 16.5.8-3.6 9-9 2.8 2.8-9 9zM11.5 5.7l2.8 2.8" />);
export const ArchiveIcon = icon(
  "ArchiveIcon",
  <path d="M2.8 3.5h14.4v4H2.8zM4.2 7.5v9h11.6v-9M8 10.7h4" />,
);
export const LeftIcon = icon("LeftIcon", <path d="m12 4.5-5.5 5.5 5.5 5.5" />);
export const RightIcon = icon("RightIcon", <path d="m8 4.5 5.5 5.5L8 15.5" />);
export const DownIcon = icon("DownIcon", <path d="m4.5 7.5 5.5 5.5 5.5-5.5" />);
export const FitIcon = icon(
  "FitIcon",
  <path d="M3 7V3h4M13 3h4v4M17 13v4h-4M7 17H3v-4M8 10h4M10 8v4" />,
);
export const MinusIcon = icon("MinusIcon", <path d="M4 10h12" />);
export const KeysIcon = icon(
  "KeysIcon",
  <>
    <rect x="2" y="5" width="16" height="10.5" rx="2" />
    <path d="M5 8.2h.1M8.3 8.2h.1M11.6 8.2h.1M14.9 8.2h.1M6 12.2h8" />
  </>,
);
export const AlertIcon = icon(
  "AlertIcon",
  <path d="M10 3 18 16.5H2zM10 8v4M10 14.2v.1" />,
);
export const SwitchIcon = icon(
  "SwitchIcon",
  <path d="M3 10h4.5c3 0 3-5.5 6-5.5H17M7.5 10c3 0 3 5.5 6 5.5H17" />,
);
export const UndoEditIcon = icon("UndoEditIcon", <path d="M4 4v4.5h4.5M4.3 8.5a6.3 6.3 0 1 1-.4 4" />);
export const RedoEditIcon = icon(
  "RedoEditIcon",
  <path d="M16 4v4.5h-4.5M15.7 8.5a6.3 6.3 0 1 0 .4 4" />,
);
export const OutlineIcon = icon(
  "OutlineIcon",
  <path d="M3.5 5h1M7.5 5H17M6 10h1M10 10h7M6 15h1M10 15h7M3.5 8v7" />,
);
export const SettingsIcon = icon(
  "SettingsIcon",
  <path d="M3.5 6h7M14.5 6h2M3.5 14h2M9.5 14h7M10.5 6a2 2 0 1 0 4 0 2 2 0 0 0-4 0M5.5 14a2 2 0 1 0 4 0 2 2 0 0 0-4 0" />,
);
export const ForkIcon = icon(
  "ForkIcon",
  <path d="M5 6.5v7M5 11c0-2.6 10-1 10-4.5M3 4.5a2 2 0 1 0 4 0 2 2 0 1 0-4 0M3 15.5a2 2 0 1 0 4 0 2 2 0 1 0-4 0M13 4.5a2 2 0 1 0 4 0 2 2 0 1 0-4 0" />,
);
export const PersonIcon = icon(
  "PersonIcon",
  <path d="M10 10a3.3 3.3 0 1 0 0-6.6 3.3 3.3 0 0 0 0 6.6ZM3.5 17c.6-3 3-4.5 6.5-4.5s5.9 1.5 6.5 4.5" />,
);
export const SignOutIcon = icon(
  "SignOutIcon",
  <path d="M8 3.5H4v13h4M8.5 10h8M13.5 7l3 3-3 3" />,
);
export const ShareIcon = icon(
  "ShareIcon",
  <path d="M8 9.5a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM2.5 16c.4-2.6 2.4-4 5.5-4 2 0 3.5.6 4.4 1.6M15 9.5v6M12 12.5h6" />,
);
export const FamilyIcon = icon(
  "FamilyIcon",
  <path d="M8 3.2h4v4H8zM3 12.8h4v4H3zM13 12.8h4v4h-4zM10 7.2v2.8M5 12.8V10h10v2.8" />,
);
export const FileIcon = icon("FileIcon", <path d="M5 2.8h6.5L15 6.3v10.9H5zM11.5 2.8v3.5H15" />);
export const ClipIcon = icon(
  "ClipIcon",
  <path d="m15.8 9.2-6 6a3.7 3.7 0 0 1-5.2-5.2l6.4-6.4a2.5 2.5 0 0 1 3.5 3.5l-6.2 6.2a1.2 1.2 0 0 1-1.7-1.7l5.4-5.4" />,
);
export const EyeIcon = icon(
  "EyeIcon",
  <>
    <path d="M2 10s3-5.5 8-5.5S18 10 18 10s-3 5.5-8 5.5S2 10 2 10Z" />
    <circle cx="10" cy="10" r="2.5" />
  </>,
);
export const DiffIcon = icon(
  "DiffIcon",
  <path d="M6 4v6M3 7h6M11 13.5h6M4.5 16.5l11-13" />,
);
export const WorldIcon = icon(
  "WorldIcon",
  <path d="M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM3 10h14M10 3c-5 4.5-5 9.5 0 14M10 3c5 4.5 5 9.5 0 14" />,
);
export const HistoryIcon = icon(
  "HistoryIcon",
  <path d="M5.5 3v14M5.5 13c0-4 8-2.5 8-6.5M3.7 3h3.6M3.7 17h3.6M11.7 4.7a1.8 1.8 0 1 0 3.6 0 1.8 1.8 0 1 0-3.6 0" />,
);
export const ClockIcon = icon(
  "ClockIcon",
  <path d="M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM10 6v4.2l2.8 1.6" />,
);
