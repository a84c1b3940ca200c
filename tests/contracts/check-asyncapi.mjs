// Reads an AsyncAPI document, named as the argument, with AsyncAPI's own parser; prints what it
// has against it, one a line, and the messages that it made out of it. Exits 1 on any complaint.
import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
for (const { severity, code, path, message } of diagnostics)
  console.error(`${severity} ${code} at ${path.join("/")}: ${message}`);
for (const message of document?.allMessages() ?? []) console.log(message.title());
process.exit(diagnostics.length || !document ? 1 : 0);
