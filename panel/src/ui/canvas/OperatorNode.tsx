// An operator on the canvas: a disc of its line's colour, its name, what it is set to, its ports.

import { Handle, Position, type NodeProps } from "@xyflow/react";
import { memo } from "react";

import { asText } from "../../client/loose";
import type { Port } from "../../client/types";
import { digest } from "./digest";
import { MARK_WORDS, operatorName, operatorTypeOf, type OperatorFlowNode } from "./flow";
import { Glyph } from "./Glyph";
import { lineOf } from "./lines";
import { MarkIcon } from "./MarkIcon";

/** The words for a port: its own name, unless that only repeats its id. */
function portName(port: Port): string | null {
  const name = asText(port.displayName);
  return name === "" || /^(in|out)put[_-]?\d+$/.test(name) ? null : name;
}

function Ports({ ports, kind }: { ports: Port[]; kind: "source" | "target" }) {
  return ports.map((port, index) => {
    const top = `${((index + 1) / (ports.length + 1)) * 100}%`;
    const name = portName(port);
    return (
      <Handle
        key={port.portID}
        id={port.portID}
        type={kind}
        position={kind === "source" ? Position.Right : Position.Left}
        style={{ top }}
        title={name ?? port.portID}
      >
        {ports.length > 1 && <span className="port-name">{name ?? index + 1}</span>}
      </Handle>
    );
  });
}

export const OperatorNode = memo(function OperatorNode({ data }: NodeProps<OperatorFlowNode>) {
  const { operator, inputs, outputs, fresh, mark } = data;
  const detail = digest(operator);
  const name = operatorName(operator);
  const type = operatorTypeOf(operator);
  return (
    <div
      className="operator"
      data-line={lineOf(type)}
      data-disabled={operator.isDisabled === true || undefined}
      data-fresh={fresh || undefined}
      data-mark={mark ?? undefined}
    >
      <Ports ports={inputs} kind="target" />
      <span className="disc">
        <Glyph type={type} />
      </span>
      <div className="operator-text">
        <div className="operator-name" title={name}>
          {name}
        </div>
        <div className="operator-type">
          {name !== type && <span>{type}</span>}
          <code title={operator.operatorID}>{operator.operatorID}</code>
        </div>
        {detail !== null && (
          <div className="operator-detail" title={detail}>
            {detail}
          </div>
        )}
      </div>
      {operator.isDisabled === true && <span className="operator-off">Off</span>}
      {mark !== null && (
        <span className="operator-mark">
          <MarkIcon mark={mark} />
          {MARK_WORDS[mark]}
        </span>
      )}
      <Ports ports={outputs} kind="source" />
    </div>
  );
});
