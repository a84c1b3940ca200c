// Tests of what needs no browser; the page is tested in a real browser (tests/panel).
import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["src/**/*.test.ts"] } });
