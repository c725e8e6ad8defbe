import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { sourcesHash } from "./sources.mjs";

const root = fileURLToPath(new URL(".", import.meta.url)).replace(/[\\/]$/, "");
const outDir = join(root, "../src/headwater/catalog/static");

const noteSources = {
  name: "note-sources",
  apply: "build",
  closeBundle() {
    const note = { sources: sourcesHash(root) };
    writeFileSync(join(outDir, "build.json"), `${JSON.stringify(note)}\n`);
  },
};

// Text files of the repository end with one newline; bundles too.
const endWithNewline = {
  name: "end-with-newline",
  apply: "build",
  generateBundle(_options, bundle) {
    for (const each of Object.values(bundle)) {
      if (each.type === "chunk") each.code = `${each.code.trimEnd()}\n`;
      else if (typeof each.source === "string") each.source = `${each.source.trimEnd()}\n`;
    }
  },
};

export default defineConfig({
  root,
  plugins: [endWithNewline, noteSources],
  worker: { format: "es", plugins: () => [endWithNewline] },
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2022",
    // The policy of the service allows neither inline scripts nor data addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 300,
  },
  server: {
    // For work on the page: `npx vite` beside a running service.
    proxy: { "/api": "http://127.0.0.1:3000" },
  },
  test: { include: ["tests/**/*.test.{ts,tsx}"], environment: "node" },
});
