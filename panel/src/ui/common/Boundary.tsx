// Where something cannot be drawn, a sentence in its place, and all else on the page still works.

import { Component, type ReactNode } from "react";

interface Props {
  sentence: string;
  /** What is drawn; when it changes, drawing is tried again. */
  of?: unknown;
  children: ReactNode;
}

export class Boundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidUpdate(before: Props) {
    if (this.state.failed && before.of !== this.props.of) this.setState({ failed: false });
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="undrawn" role="alert">
        <p>{this.props.sentence}</p>
      </div>
    );
  }
}
