// One hash over all sources. The build writes it next to the bundle, and a test compares it, so that
// no page is shipped that is older than its sources.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";

const FOLDERS = ["public", "src"];
const FILES = ["index.html", "package-lock.json", "sources.mjs", "tsconfig.json", "vite.config.js"];

export function sourcesHash(root) {
  const names = [...FILES];
  for (const folder of FOLDERS) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) {
        const path = join(entry.parentPath, entry.name).slice(root.length + 1);
        names.push(path.split("\\").join(posix.sep));
      }
    }
  }
  const hash = createHash("sha256");
  for (const name of names.toSorted()) {
    hash.update(`${name}\0`);
    hash.update(readFileSync(join(root, name)));
    hash.update("\0");
  }
  return hash.digest("hex");
}
