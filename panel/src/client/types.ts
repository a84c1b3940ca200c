// The wire in the panel's words. Frames are those that `turnback schema` writes (types.gen.ts), with the
// document inside them opened up; REST bodies are snake_case and described here.

import type * as wire from "./types.gen";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

// -- the workflow ---------------------------------------------------------------------------

export interface Point {
  x: number;
  y: number;
}

export interface Port {
  portID: string;
  displayName?: string;
  disallowMultiInputs?: boolean;
  [key: string]: Json | undefined;
}

export interface Operator {
  operatorID: string;
  operatorType: string;
  operatorProperties?: JsonObject;
  inputPorts?: Port[];
  outputPorts?: Port[];
  customDisplayName?: string;
  isDisabled?: boolean;
  [key: string]: unknown;
}

export interface LinkEnd {
  operatorID: string;
  portID: string;
}

export interface Link {
  linkID: string;
  source: LinkEnd;
  target: LinkEnd;
  [key: string]: unknown;
}

export interface Comment {
  content: string;
  creationTime?: string;
  creatorName?: string;
  creatorID?: number;
  [key: string]: unknown;
}

export interface CommentBox {
  commentBoxID: string;
  comments?: Comment[];
  commentBoxPosition?: Point;
  [key: string]: unknown;
}

export interface Workflow {
  operators?: Operator[];
  operatorPositions?: { [operatorID: string]: Point };
  links?: Link[];
  commentBoxes?: CommentBox[];
  settings?: JsonObject;
  [key: string]: unknown;
}

export type Edit =
  | { op: "addOperator"; operator: Operator; position?: Point }
  | { op: "changeOperator"; operatorID: string; set: Partial<Operator>; unset?: string[] }
  | { op: "removeOperator"; operatorID: string }
  | { op: "moveOperator"; operatorID: string; position: Point }
  | { op: "addLink"; link: Link }
  | { op: "changeLink"; linkID: string; set: Partial<Link> }
  | { op: "removeLink"; linkID: string }
  | { op: "addComment"; comment: CommentBox }
  | { op: "changeComment"; commentBoxID: string; set: Partial<CommentBox> }
  | { op: "removeComment"; commentBoxID: string }
  | { op: "moveComment"; commentBoxID: string; position: Point }
  | { op: "changeSettings"; set: JsonObject; unset?: string[] }
  | { op: "replaceWorkflow"; workflow: Workflow };

// -- frames ---------------------------------------------------------------------------------

export const ROOT_STEP = "step-initial";

export type AgentState = wire.WsServerStatusEvent["state"];
export type EndReason = NonNullable<wire.StepFrame["endReason"]>;
export type HeadCause = wire.WsServerHeadChangeEvent["cause"];
export type ToolCall = wire.ToolCallFrame;
export type ToolResult = wire.ToolResultFrame;
export type Step = wire.StepFrame;

/** A frame whose workflow, where it has one, is a document; null when the stored one is damaged. */
type Opened<Frame> = Frame extends { workflowContent: unknown }
  ? Omit<Frame, "workflowContent"> & { workflowContent: Workflow | null }
  : Frame;

export type ServerFrame = Opened<wire.ServerFrame>;
export type SnapshotEvent = Opened<wire.WsServerSnapshotEvent>;
export type DeltaEvent = wire.WsServerDeltaEvent;
export type AckEvent = wire.WsServerAckEvent;
export type Command = wire.ClientFrame;
export type Attachment = wire.AttachedFrame;
export type PendingAction = wire.PendingActionFrame;
export type Approval = wire.ApprovalFrame;
export type Undo = wire.UndoFrame;
export type UndoItem = wire.UndoItemFrame;
export type EffectClass = Approval["class"];
export type EffectStanding = wire.EffectStandingFrame;
/** What is known of an effect now; `held` is sent at `holdUntil`. */
export type EffectTold = wire.EffectFrame;
export type Standing = wire.EffectStandingFrame["standing"];
export type Verb = UndoItem["verb"];

/** One of the lines that part after `parentId`: its first step, and the tip it has come to. */
export interface Branch {
  stepId: string;
  parentId: string;
  tip: string;
  content: string;
  /** Turns from where it parts to its tip. */
  turns: number;
}

// -- REST (snake_case) ----------------------------------------------------------------------

/** What one may do with a session. `manage`: delete it, and say who may do what. */
export type Right = "read" | "run" | "fork" | "manage";
export type Visibility = "project" | "private";

export interface SessionInfo {
  id: string;
  name: string;
  owner: string;
  visibility: Visibility;
  /** What the caller may do with it. */
  rights: Right[];
  created_at: string;
  updated_at: string;
  state: AgentState;
  /** A call of its turn waits for a person. */
  waiting: boolean;
  archived: boolean;
  head_id: string;
  revision: number;
  model: string;
  settings: RunSettings;
}

/** What a session's runs are held to beside the server's limits; null: the server's. */
export interface RunSettings {
  max_steps: number | null;
  /** In seconds, like the next. */
  run_timeout: number | null;
  tool_timeout: number | null;
  max_tool_output: number | null;
  disabled_tools: string[];
}

export interface SessionPage {
  sessions: SessionInfo[];
  next_cursor: string | null;
}

/** The turn at which a fork leaves its parent, and the side of it. */
export interface RestBoundary {
  turn_id: string;
  position: "before" | "after";
}

/** Where a fork comes from. `parent_id` is null where the parent may not be read. */
export interface RestLineage {
  parent_id: string | null;
  boundary: RestBoundary | null;
  inherited_turn_count: number;
  /** The last step inherited; `step-initial` where there is none. */
  cutoff_id: string;
  depth: number;
  description: string | null;
}

export interface RestFork {
  session: SessionInfo;
  lineage: RestLineage;
}

/** A session of the same family; `name` is null where it is deleted. */
export interface RestRelative {
  session_id: string;
  name: string | null;
  archived: boolean;
  deleted: boolean;
}

export interface RestFamily {
  session_id: string;
  lineage: RestLineage | null;
  /** From the parent on, those that may be read. */
  ancestors: RestRelative[];
  /** A page of what was forked from it, newest first. */
  children: RestRelative[];
  next_cursor: string | null;
}

/** A step with its names in snake_case, but for these two. */
export interface RestStep {
  turn_id: string;
  record_index: number;
  [member: string]: unknown;
}

export interface RestStepPage {
  steps: RestStep[];
  next_cursor: string | null;
}

export interface RestBranches {
  branches: {
    step_id: string;
    parent_id: string;
    turn_id: string;
    content: string;
    tip: string;
    turns: number;
    on_path: boolean;
  }[];
  next_cursor: string | null;
}

/** A member that differs; `path` leads to it from its operator, link, comment or settings. */
export interface RestChange {
  path: string[];
  kind: "added" | "removed" | "changed" | "reordered";
  before: unknown;
  after: unknown;
}

/** Items by id: added and removed whole, changed by property. */
export interface RestChanges<Item> {
  added: { [id: string]: Item };
  removed: { [id: string]: Item };
  changed: { [id: string]: RestChange[] };
}

export interface RestDiff {
  operators: RestChanges<Operator>;
  moved: string[];
  links: RestChanges<Link>;
  comments: RestChanges<CommentBox>;
  settings: RestChange[];
  members: RestChange[];
}

/** A turn that a revert would leave, or a person's edit that it would take back. */
export interface RestTurnLeft {
  turn_id: string;
  content: string;
  by: string;
  timestamp: number;
}

/** What a revert would take back at `head_id`; `diff` leads from there to what it would be. */
export interface RestPreview {
  head_id: string;
  target_head_id: string;
  turns: RestTurnLeft[];
  turn_count: number;
  edits: (RestTurnLeft & { own: boolean })[];
  edit_count: number;
  needs_confirm: boolean;
  keeps_edits: boolean;
  diff: RestDiff | null;
}

/** A JSON Schema of an operator's properties, as far as the inspector understands it. */
export interface PropertySchema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: Json[];
  default?: Json;
  properties?: { [name: string]: PropertySchema };
  required?: string[];
  items?: PropertySchema;
  minimum?: number;
  maximum?: number;
  [key: string]: unknown;
}

export interface OperatorType {
  type: string;
  label: string;
  group: string;
  description: string;
  input_ports: Port[];
  output_ports: Port[];
  dynamic_ports: boolean;
  properties: PropertySchema;
}

/** A call that changed something outside, or may have. Names are empty for who may only read. */
export interface RestEffect {
  effect_id: string;
  turn_id: string;
  step_id: string;
  tool_call_id: string;
  tool: string;
  class: EffectClass;
  state: EffectTold["state"];
  standing: Standing | null;
  /** Until then it is held back and not sent. */
  hold_until: number | null;
  /** What an undo could do with it now. */
  verb: Verb | null;
  what: string;
  people: string[];
}

export interface RestEffects {
  effects: RestEffect[];
  next_cursor: number | null;
}

/** A tool from outside. `name` is what models call it; `class` the worst that a call can be. */
export interface RestTool {
  name: string;
  tool: string;
  class: EffectClass;
  classes: EffectClass[];
  why: string | null;
}

/** A value that somebody else has changed; one that is not there has a `has_` of false. */
export interface RestValues {
  thing: string;
  path: string[];
  now: Json;
  goal: Json;
  has_now: boolean;
  has_goal: boolean;
}

export interface RestUndoItem {
  effect_id: string;
  tool: string;
  what: string;
  verb: Verb;
  state: UndoItem["state"];
  reason: string | null;
  /** What came of it, in words. */
  said: string;
  /** Where the effect stands now. */
  standing: Standing | null;
  people: string[];
  values: RestValues[];
}

export interface RestDraft {
  to: string[];
  subject: string;
  body: string;
}

/** What is left of an effect, in the reader's language. */
export interface RestResidue {
  residue_id: string;
  effect_id: string;
  what: string;
  saw: string;
  settles: string | null;
  how: string;
  draft: RestDraft | null;
  status: "open" | "acknowledged" | "settled";
}

export interface RestResidues {
  residues: RestResidue[];
  next_cursor: string | null;
}

export interface RestReport {
  undo_id: string;
  revision: number;
  language: string;
  status: "running" | "ended";
  outcome: Undo["outcome"];
  headline: string;
  items: RestUndoItem[];
  residues: RestResidue[];
  open_residues: number;
}

/** One effect of a plan, and what it leaves all the same. */
export interface RestMember {
  effect_id: string;
  turn_id: string;
  tool: string;
  what: string;
  verb: Verb;
  group: "reverted" | "compensated" | "stays";
  class: EffectClass;
  people: string[];
  leaves: { what: string; saw: string; settles: string | null } | null;
  not_kept: string[];
  covered_by: string | null;
  in_doubt: boolean;
  asked: boolean;
  hold_until: number | null;
  /** It is from before a restore from backup. */
  restored: boolean;
}

export interface RestPlan {
  plan_id: string;
  expires_at: number;
  language: string;
  plain: boolean;
  runnable: boolean;
  members: RestMember[];
  inherited: { effect_id: string; session_id: string }[];
  /** Effects outside the plan that depend on a member: both, or neither. */
  missing: { effect_id: string; tool: string; what: string; needs: string }[];
  cycle: string[];
}

/** An RFC 9457 problem. */
export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  data?: JsonObject;
}
