import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { sourcesHash } from "./sources.mjs";

const root = fileURLToPath(new URL(".", import.meta.url)).replace(/[\\/]$/, "");
const outDir = join(root, "../src/headwater/catalog/static");

const finish = {
  name: "finish",
  apply: "build",
  closeBundle() {
    writeFileSync(join(outDir, "build.json"), JSON.stringify({ sources: sourcesHash(root) }));
    // Text files of the repository end with one newline; bundles too.
    for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      writeFileSync(path, `${readFileSync(path, "utf-8").trimEnd()}\n`);
    }
  },
};

export default defineConfig({
  root,
  plugins: [finish],
  worker: { format: "es" },
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    // The policy of the service allows neither inline scripts nor data URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    // For development: `npx vite` with a running service.
    proxy: { "/api": "http://127.0.0.1:3000" },
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
