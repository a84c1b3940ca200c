// How the page is built: into the Python package, every byte of it from this origin.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const SERVER = "http://127.0.0.1:8700";
const ROUTES = [
  "/sessions",
  "/operator-types",
  "/capabilities",
  "/healthz",
  "/readyz",
  "/whoami",
  "/sign-in",
  "/sign-out",
  "/ws-tickets",
];

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/turnback/panel",
    emptyOutDir: true,
    // A data: address would need a wider content security policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(
      // The server compares Origin and Host with its own address, so both must be its.
      ROUTES.map((route) => [
        route,
        { target: SERVER, ws: true, changeOrigin: true, headers: { origin: SERVER } },
      ]),
    ),
  },
});
