// Prints the path of the Chromium in the npm package, for machines without one. It is unpacked
// inside node_modules: in a world-writable folder another user could have created the file.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "node_modules", ".chromium");
mkdirSync(folder, { recursive: true });
process.env.TMPDIR = folder;
const { default: chromium } = await import("@sparticuz/chromium");
console.log(await chromium.executablePath());
