// The wire: every frame, command and REST body that the panel reads or sends (docs: protocol).

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

// -- steps ----------------------------------------------------------------------------------

export const ROOT_STEP = "step-initial";

export type AgentState = "AVAILABLE" | "GENERATING" | "STOPPING" | "UNAVAILABLE";
export type EndReason = "complete" | "stopped" | "failed" | "limit" | "interrupted";

export interface ToolCall {
  toolName: string;
  toolCallId: string;
  input: JsonObject;
}

export interface ToolResult {
  toolCallId: string;
  output: string;
  isError: boolean;
}

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
}

export interface Step {
  id: string;
  parentId: string;
  /** The turn. */
  messageId: string;
  /** The index in the turn; 0 is the person's own. */
  stepId: number;
  /** Milliseconds. */
  timestamp: number;
  role: "user" | "agent";
  content: string;
  isBegin: boolean;
  isEnd: boolean;
  toolCalls?: ToolCall[];
  toolResults?: ToolResult[];
  usage?: Usage;
  messageSource?: "chat" | "feedback";
  branchId?: string;
  kind?: "prompt" | "edit";
  endReason?: EndReason | null;
  beforeHash?: string;
  afterHash?: string;
  by?: string | null;
  beforeWorkflowContent?: Workflow;
  afterWorkflowContent?: Workflow;
}

/** One of the lines that part after `parentId`: its first step, and the tip it has come to. */
export interface Branch {
  stepId: string;
  parentId: string;
  tip: string;
  content: string;
}

export interface Partial_ {
  messageId: string;
  stepId: string;
  text: string;
}

// -- server to client -----------------------------------------------------------------------

export interface SnapshotEvent {
  type: "WsServerSnapshotEvent";
  state: AgentState;
  steps: Step[];
  headId: string;
  /** Null when the stored workflow is damaged. */
  workflowContent: Workflow | null;
  canRedo: boolean;
  redoDepth: number;
  eventSeq: number;
  streamEpoch: string;
  stepsCursor: string | null;
  partial: Partial_ | null;
  name: string;
  reset?: true;
}

export interface StepEvent {
  type: "WsServerStepEvent";
  step: Step;
  eventSeq: number;
}

export interface StatusEvent {
  type: "WsServerStatusEvent";
  state: AgentState;
  /** Missing where the state is not stored: the database is lost, or back. */
  eventSeq?: number;
}

export type HeadCause = "revert" | "redo" | "checkout" | "edit";

export interface HeadChangeEvent {
  type: "WsServerHeadChangeEvent";
  headId: string;
  /** Null when the stored workflow is damaged. */
  workflowContent: Workflow | null;
  canRedo: boolean;
  redoDepth: number;
  cause: HeadCause;
  by?: string | null;
  eventSeq: number;
}

export interface ErrorEvent_ {
  type: "WsServerErrorEvent";
  error: string;
  code: string;
  requestId?: string;
  data?: JsonObject;
}

export interface DeltaEvent {
  type: "WsServerDeltaEvent";
  messageId: string;
  stepId: string;
  after: number;
  offset: number;
  text?: string;
  toolCall?: { toolCallId: string; toolName: string; arguments: string };
}

export interface SessionEvent {
  type: "WsServerSessionEvent";
  change: "name" | "archived" | "deleted";
  name?: string;
  archived?: boolean;
  eventSeq: number;
}

export interface AckEvent {
  type: "WsServerAckEvent";
  requestId: string;
  headId: string;
  eventSeq: number;
}

export type ServerFrame =
  | SnapshotEvent
  | StepEvent
  | StatusEvent
  | HeadChangeEvent
  | ErrorEvent_
  | DeltaEvent
  | SessionEvent
  | AckEvent;

// -- client to server -----------------------------------------------------------------------

interface Envelope {
  requestId?: string;
  expectedHeadId?: string;
}

export type Command = Envelope &
  (
    | { type: "WsClientPromptCommand"; content: string; messageSource?: "chat"; turnKey?: string }
    | { type: "WsClientStopCommand" }
    | { type: "WsClientRevertCommand"; messageId?: string; stepId?: string }
    | { type: "WsClientRedoCommand"; all?: boolean }
    | { type: "WsClientCheckoutCommand"; stepId: string }
    | { type: "WsClientEditWorkflowCommand"; baseHeadId: string; edits: Edit[] }
  );

// -- REST (snake_case) ----------------------------------------------------------------------

export interface SessionInfo {
  id: string;
  name: string;
  created_at: string;
  updated_at: string;
  state: AgentState;
  archived: boolean;
  head_id: string;
  revision: number;
  model: string;
}

export interface SessionPage {
  sessions: SessionInfo[];
  next_cursor: string | null;
}

export interface RestStep {
  id: string;
  parent_id: string;
  turn_id: string;
  record_index: number;
  timestamp: number;
  role: "user" | "agent";
  content: string;
  is_begin: boolean;
  is_end: boolean;
  tool_calls?: { tool_name: string; tool_call_id: string; input: JsonObject }[];
  tool_results?: { tool_call_id: string; output: string; is_error: boolean }[];
  usage?: { input_tokens: number; output_tokens: number; total_tokens: number } | null;
  message_source?: "chat" | "feedback" | null;
  branch_id?: string;
  kind?: "prompt" | "edit";
  end_reason?: EndReason | null;
  before_hash?: string;
  after_hash?: string;
  by?: string | null;
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
    on_path: boolean;
  }[];
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

/** An RFC 9457 problem. */
export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  data?: JsonObject;
}
