// A new operator in the shape that workflow files have.

import type { Json, JsonObject, Operator, OperatorType, Workflow } from "../../client/types";

export function newOperator(type: OperatorType, workflow: Workflow): Operator {
  return {
    operatorID: freeId(workflow),
    operatorType: type.type,
    operatorVersion: "N/A",
    operatorProperties: defaults(type),
    inputPorts: type.input_ports,
    outputPorts: type.output_ports,
    showAdvanced: false,
    isDisabled: false,
    customDisplayName: type.label,
    dynamicInputPorts: type.dynamic_ports,
    dynamicOutputPorts: type.dynamic_ports,
  };
}

/** `op7` after `op6`: short, because the person will name it to the agent. */
function freeId(workflow: Workflow): string {
  const numbers = (workflow.operators ?? []).map((operator) =>
    Number(/^op(\d{1,9})$/.exec(operator.operatorID)?.[1] ?? 0),
  );
  return `op${Math.max(0, ...numbers) + 1}`;
}

function defaults(type: OperatorType): JsonObject {
  const result: JsonObject = {};
  for (const [name, schema] of Object.entries(type.properties.properties ?? {})) {
    const value: Json | undefined = schema.default;
    if (value !== undefined) result[name] = value;
  }
  return result;
}
