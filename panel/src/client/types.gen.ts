// Written by `turnback schema` from the frames in src/turnback/api/. Do not edit.

/** A new comment box, with a commentBoxID that is not in use. */
export type AddComment = {
  op: "addComment";
  comment: Record<string, unknown>;
};

/** A new link between ports that exist; without a `linkID` it is given one. */
export type AddLink = {
  op: "addLink";
  link: Record<string, unknown>;
};

/** A new operator, of a known type and with an operatorID that is not in use. */
export type AddOperator = {
  op: "addOperator";
  operator: Record<string, unknown>;
  position?: Position | null;
};

/** A call that waits, or waited, for a person. `toolName` is the connection's name and the tool's. `class` is how far the call can be taken back at worst, `because` why that is worse than the tool's contract has it. `argsHash` is what a decision names. `edited` are the arguments that it was approved with, where they are others than `input`. It waits until `expiresAt`; times in ms. */
export type ApprovalFrame = {
  toolCallId: string;
  toolName: string;
  input: Record<string, unknown>;
  class: "read" | "reversible" | "compensable" | "irreversible";
  because: string | null;
  argsHash: string;
  askedAt: number;
  expiresAt: number;
  status: "waiting" | "approved" | "denied" | "expired" | "dropped";
  edited: Record<string, unknown> | null;
  by: string | null;
};

/** A file that a prompt is about, as it was then; whether it is still there, REST says. */
export type AttachedFrame = {
  id: string;
  name: string;
  type: string;
  size: number;
};

export type BaseClientFrame = BasePromptCommand | BaseStopCommand | BaseRevertCommand | BaseRedoCommand;

/** A sentence on what could not be done; nothing has changed. */
export type BaseErrorEvent = {
  type: "WsServerErrorEvent";
  error: string;
};

/** HEAD has moved without a new step: a revert, a redo, a checkout, or an edit. */
export type BaseHeadChangeEvent = {
  type: "WsServerHeadChangeEvent";
  headId: string;
  workflowContent: Record<string, unknown> | null;
  canRedo: boolean;
};

/** A user's message: the next turn. Refused while the agent is busy. */
export type BasePromptCommand = {
  type: "WsClientPromptCommand";
  content: string;
  messageSource?: "chat" | "feedback" | null;
};

/** Take the newest revert back. */
export type BaseRedoCommand = {
  type: "WsClientRedoCommand";
};

/** HEAD and the workflow back to before a turn, which `messageId` names. */
export type BaseRevertCommand = {
  type: "WsClientRevertCommand";
  messageId: string;
};

export type BaseServerFrame = BaseSnapshotEvent | BaseStepEvent | BaseStatusEvent | BaseHeadChangeEvent | BaseErrorEvent;

/** The first frame: everything there is, every branch's steps among it. */
export type BaseSnapshotEvent = {
  type: "WsServerSnapshotEvent";
  state: "AVAILABLE" | "GENERATING" | "STOPPING" | "UNAVAILABLE";
  steps: BaseStep[];
  headId: string;
  workflowContent: Record<string, unknown> | null;
  canRedo: boolean;
};

/** The agent's state has changed. */
export type BaseStatusEvent = {
  type: "WsServerStatusEvent";
  state: "AVAILABLE" | "GENERATING" | "STOPPING" | "UNAVAILABLE";
};

/** A step in full: the workflow before and after it, where a frame has room for them. */
export type BaseStep = {
  id: string;
  parentId: string;
  messageId: string;
  stepId: number;
  timestamp: number;
  role: "user" | "agent";
  content: string;
  isBegin: boolean;
  isEnd: boolean;
  messageSource?: "chat" | "feedback" | null;
  toolCalls?: ToolCallFrame[] | null;
  toolResults?: ToolResultFrame[] | null;
  usage?: UsageFrame | null;
  beforeWorkflowContent?: Record<string, unknown> | null;
  afterWorkflowContent?: Record<string, unknown> | null;
};

/** A finished step. HEAD is now this step. */
export type BaseStepEvent = {
  type: "WsServerStepEvent";
  step: BaseStep;
};

/** End the run that is under way; nothing if none is. */
export type BaseStopCommand = {
  type: "WsClientStopCommand";
};

/** Members of a comment box set as given; never its commentBoxID. */
export type ChangeComment = {
  op: "changeComment";
  commentBoxID: string;
  set: Record<string, unknown>;
};

/** Members of a link set as given; never its linkID. */
export type ChangeLink = {
  op: "changeLink";
  linkID: string;
  set: Record<string, unknown>;
};

/** Members of an operator set as given, or taken away; never its operatorID. */
export type ChangeOperator = {
  op: "changeOperator";
  operatorID: string;
  set?: Record<string, unknown>;
  unset?: string[];
};

/** Settings set as given, or taken away. */
export type ChangeSettings = {
  op: "changeSettings";
  set?: Record<string, unknown>;
  unset?: string[];
};

/** Those of the session's settings that have changed; null: the server's again. */
export type ChangedRunSettings = {
  maxSteps?: number | null;
  runTimeout?: number | null;
  toolTimeout?: number | null;
  maxToolOutput?: number | null;
  disabledTools?: string[] | null;
};

export type ClientFrame = WsClientPromptCommand | WsClientStopCommand | WsClientRevertCommand | WsClientUndoCommand | WsClientAcknowledgeCommand | WsClientRedoCommand | WsClientCheckoutCommand | WsClientEditWorkflowCommand | WsClientApproveCommand;

/** What is known of an effect now. `stepId` is the id of its step. `held`: it is sent at `holdUntil` (ms), unless it is taken back before. `standing` is null where it turned out that nothing had happened. */
export type EffectFrame = {
  effectId: string;
  messageId: string;
  stepId: string;
  toolCallId: string;
  toolName: string;
  state: "held" | "intent" | "done" | "done_unchanged" | "failed_clean" | "failed_dirty" | "in_doubt";
  standing: "in_force" | "reverted" | "compensated" | "cancelled" | "in_doubt" | "partly" | null;
  holdUntil: number | null;
};

/** Where an effect stands that is not as the visible path has it. On the path and no longer in force, or off it and still so. */
export type EffectStandingFrame = {
  effectId: string;
  standing: "in_force" | "reverted" | "compensated" | "cancelled" | "in_doubt" | "partly";
};

/** A comment box at another place. */
export type MoveComment = {
  op: "moveComment";
  commentBoxID: string;
  position: Position;
};

/** An operator at another place. */
export type MoveOperator = {
  op: "moveOperator";
  operatorID: string;
  position: Position;
};

/** The text of the step that is being made. */
export type PartialFrame = {
  messageId: string;
  stepId: string;
  text: string;
};

/** Where lines part on the visible path: after `stepId`, one line per `tips`, oldest first. */
export type PartingFrame = {
  stepId: string;
  onPath: number;
  tips: string[];
};

/** The prompt that the fork was made to send again; it is sent with this `turnKey`. It stays until a turn of the fork's own is complete. `claimed`: a client is at it. */
export type PendingActionFrame = {
  mode: "edit" | "rerun";
  draft: string;
  turnKey: string;
  state: "pending" | "claimed";
};

/** Where an operator or a comment box stands. */
export type Position = {
  x: number;
  y: number;
};

/** A comment box gone. */
export type RemoveComment = {
  op: "removeComment";
  commentBoxID: string;
};

/** A link gone. */
export type RemoveLink = {
  op: "removeLink";
  linkID: string;
};

/** An operator gone, with its links and its position, and nothing else. */
export type RemoveOperator = {
  op: "removeOperator";
  operatorID: string;
};

/** Another document in place of the whole workflow: what opening a file is. */
export type ReplaceWorkflow = {
  op: "replaceWorkflow";
  workflow: Record<string, unknown>;
};

/** What is left of an effect: `template` names the sentence, which REST has. Times in ms. */
export type ResidueFrame = {
  residueId: string;
  template: string;
  status: "open" | "acknowledged" | "settled";
  settlesAt: number | null;
};

/** What the session's runs are held to beside the server's settings; null: the server's. Seconds, and characters of a tool's output. The tools are off beside those that the server's own setting switches off. */
export type RunSettingsFrame = {
  maxSteps: number | null;
  runTimeout: number | null;
  toolTimeout: number | null;
  maxToolOutput: number | null;
  disabledTools: string[];
};

export type ServerFrame = WsServerSnapshotEvent | WsServerStepEvent | WsServerStatusEvent | WsServerApprovalEvent | WsServerHeadChangeEvent | WsServerUndoEvent | WsServerEffectEvent | WsServerErrorEvent | WsServerDeltaEvent | WsServerSessionEvent | WsServerAckEvent;

/** What an undo has used of its budget: calls that change something, reads, tokens. */
export type SpentFrame = {
  calls: number;
  reads: number;
  tokens: number;
};

/** A step as a v1 client sees it: without the workflows, which are read by the step's id. */
export type StepFrame = {
  id: string;
  parentId: string;
  messageId: string;
  stepId: number;
  timestamp: number;
  role: "user" | "agent";
  content: string;
  isBegin: boolean;
  isEnd: boolean;
  messageSource?: "chat" | "feedback" | null;
  toolCalls?: ToolCallFrame[] | null;
  toolResults?: ToolResultFrame[] | null;
  usage?: UsageFrame | null;
  attachments?: AttachedFrame[] | null;
  world?: WorldFrame[] | null;
  branchId: string;
  kind: "prompt" | "edit";
  endReason: "complete" | "stopped" | "failed" | "limit" | "interrupted" | null;
  effects: string[];
  beforeHash: string;
  afterHash: string;
  by: string;
};

/** A tool call as the model made it. */
export type ToolCallFrame = {
  toolName: string;
  toolCallId: string;
  input: Record<string, unknown>;
};

/** A piece of a tool call's arguments, which are JSON. */
export type ToolDelta = {
  toolCallId: string;
  toolName: string;
  arguments: string;
};

/** What a tool call led to. */
export type ToolResultFrame = {
  toolCallId: string;
  output: string;
  isError: boolean;
};

/** An undo at one instant, whole: of two with the same ids the higher `undoRevision` counts. `undoId` is null as long as it is a plan that nobody has started. `counts` has how many members came to what: `needs_you`, `needs_review`, `in_doubt`, `failed`, `not_started`, `compensate`, `cancel`, `revert`. */
export type UndoFrame = {
  undoId: string | null;
  planId: string;
  undoRevision: number;
  phase: "plan" | "run" | "ended" | "settled";
  by: string;
  turnIds: string[];
  items: UndoItemFrame[];
  spent: SpentFrame;
  outcome: "fully_reverted" | "partially_reverted" | "not_reverted" | null;
  counts: Record<string, number>;
};

/** One effect of an undo: what is done with it, and how that stands. `check` is what a plan's look at the world has found; afterwards `state` says more. `standing` is where the effect stands in the world, null where it turned out that nothing had happened. */
export type UndoItemFrame = {
  effectId: string;
  messageId: string;
  verb: "revert" | "compensate" | "cancel" | "acknowledge";
  state: "pending" | "checking" | "intent" | "sent" | "verifying" | "reverted" | "compensated" | "cancelled" | "needs_you" | "needs_review" | "in_doubt" | "partly" | "blocked" | "failed" | "noop_inverse" | "not_started";
  reason: string | null;
  standing: "in_force" | "reverted" | "compensated" | "cancelled" | "in_doubt" | "partly" | null;
  check: "unchecked" | "go" | "already" | "review" | "unreadable";
  residue: ResidueFrame | null;
};

/** Tokens of one model call, as its provider counted them. */
export type UsageFrame = {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
};

/** An effect that stood otherwise than the conversation had it when the message was sent. `things` are what it touched, by kind and key; `people` how many it told. `at` is in ms. */
export type WorldFrame = {
  effectId: string;
  standing: "in_force" | "reverted" | "compensated" | "cancelled" | "in_doubt" | "partly";
  tool: string;
  things: string[];
  people: number;
  at: number;
};

/** Take note of what an undo has left; again, nothing changes. */
export type WsClientAcknowledgeCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientAcknowledgeCommand";
  residueId: string;
};

/** A person's decision about a call that waits; `argsHash` is that of what they were shown. `input` are other arguments to make the call with; the agent is told of them. */
export type WsClientApproveCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientApproveCommand";
  toolCallId: string;
  decision: "approve" | "deny";
  argsHash: string;
  input?: Record<string, unknown> | null;
};

/** HEAD to any step; `step-initial` is the empty conversation. */
export type WsClientCheckoutCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientCheckoutCommand";
  stepId: string;
};

/** A person's own edit, made on the workflow at `baseHeadId`: a turn of its own. */
export type WsClientEditWorkflowCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientEditWorkflowCommand";
  baseHeadId: string;
  edits: (AddOperator | ChangeOperator | RemoveOperator | MoveOperator | AddLink | ChangeLink | RemoveLink | AddComment | ChangeComment | RemoveComment | MoveComment | ChangeSettings | ReplaceWorkflow)[];
};

/** A user's message: the next turn. Refused while the agent is busy. */
export type WsClientPromptCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientPromptCommand";
  content: string;
  messageSource?: "chat" | "feedback" | null;
  turnKey?: string | null;
  attachmentIds?: string[] | null;
};

/** Take the newest revert back, or all that can be. */
export type WsClientRedoCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientRedoCommand";
  all?: boolean;
};

/** HEAD and the workflow back to before a turn, or a step. */
export type WsClientRevertCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientRevertCommand";
  messageId?: string | null;
  stepId?: string | null;
  effects?: "leave" | "undo" | null;
  planId?: string | null;
  confirm?: boolean | null;
  keepEdits?: boolean | null;
};

/** End the run that is under way; nothing if none is. */
export type WsClientStopCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientStopCommand";
};

/** Undo what was done outside as a plan has it; HEAD stays. One that is run is joined. */
export type WsClientUndoCommand = {
  requestId?: string | null;
  expectedHeadId?: string | null;
  type: "WsClientUndoCommand";
  planId: string;
};

/** A command that carried a `requestId` is durable. */
export type WsServerAckEvent = {
  type: "WsServerAckEvent";
  requestId: string;
  headId: string;
  eventSeq: number;
  messageId?: string | null;
  undoId?: string | null;
};

/** A call waits for a person, or waits no more: `approval` says how it stands. */
export type WsServerApprovalEvent = {
  type: "WsServerApprovalEvent";
  messageId: string;
  stepId: string;
  approval: ApprovalFrame;
  eventSeq: number;
};

/** A provisional piece. `offset` counts UTF-16 units of the text, or of the call's arguments. */
export type WsServerDeltaEvent = {
  type: "WsServerDeltaEvent";
  messageId: string;
  stepId: string;
  after: number;
  offset: number;
  text?: string | null;
  toolCall?: ToolDelta | null;
};

/** What is known of a call outside is another: held back, sent or taken back, or no longer in doubt. */
export type WsServerEffectEvent = {
  type: "WsServerEffectEvent";
  effect: EffectFrame;
  eventSeq: number;
};

/** A command that was not carried out, to its sender; `code` says why. */
export type WsServerErrorEvent = {
  type: "WsServerErrorEvent";
  error: string;
  code: string;
  requestId?: string | null;
  data: Record<string, unknown>;
};

/** HEAD has moved: a revert, a redo, a checkout, or an edit. */
export type WsServerHeadChangeEvent = {
  type: "WsServerHeadChangeEvent";
  headId: string;
  workflowContent: Record<string, unknown> | null;
  canRedo: boolean;
  redoDepth: number;
  redoId: string | null;
  cause: "revert" | "redo" | "checkout" | "edit";
  by: string;
  effectsOutOfStep: EffectStandingFrame[];
  eventSeq: number;
};

/** The session has another name, model, settings, visibility or grants, is archived or not, or is deleted; or its pending action is claimed, free again (`turnKey` may be another), or done. */
export type WsServerSessionEvent = {
  type: "WsServerSessionEvent";
  change: "name" | "archived" | "model" | "settings" | "visibility" | "grants" | "pendingAction" | "deleted";
  name?: string | null;
  archived?: boolean | null;
  model?: string | null;
  settings?: ChangedRunSettings | null;
  visibility?: "project" | "private" | null;
  pending?: "pending" | "claimed" | "done" | null;
  turnKey?: string | null;
  eventSeq: number;
};

/** Everything as it is now: the first frame, unless what was missed is replayed. */
export type WsServerSnapshotEvent = {
  type: "WsServerSnapshotEvent";
  state: "AVAILABLE" | "GENERATING" | "STOPPING" | "UNAVAILABLE";
  steps: StepFrame[];
  headId: string;
  workflowContent: Record<string, unknown> | null;
  canRedo: boolean;
  eventSeq: number;
  streamEpoch: string;
  name: string;
  archived: boolean;
  model: string;
  settings: RunSettingsFrame;
  branches: PartingFrame[];
  redoDepth: number;
  redoId: string | null;
  stepsCursor: string | null;
  partial: PartialFrame | null;
  pendingAction: PendingActionFrame | null;
  effectsOutOfStep: EffectStandingFrame[];
  undos: UndoFrame[];
  held?: EffectFrame[];
  waitingFor: ApprovalFrame[];
  reset?: boolean | null;
};

/** `eventSeq` is missing where the state is the server's view and not stored: UNAVAILABLE. */
export type WsServerStatusEvent = {
  type: "WsServerStatusEvent";
  state: "AVAILABLE" | "GENERATING" | "STOPPING" | "UNAVAILABLE";
  waitingFor: ApprovalFrame[];
  eventSeq?: number | null;
};

/** A finished step. HEAD is now this step. */
export type WsServerStepEvent = {
  type: "WsServerStepEvent";
  step: StepFrame;
  eventSeq: number;
};

/** An undo has gone on, has ended, or what it left is another: `phase` says which. A plan's (`plan`) go to who asked for it, and have no `eventSeq`. */
export type WsServerUndoEvent = {
  undoId: string | null;
  planId: string;
  undoRevision: number;
  phase: "plan" | "run" | "ended" | "settled";
  by: string;
  turnIds: string[];
  items: UndoItemFrame[];
  spent: SpentFrame;
  outcome: "fully_reverted" | "partially_reverted" | "not_reverted" | null;
  counts: Record<string, number>;
  type: "WsServerUndoEvent";
  eventSeq?: number | null;
};
