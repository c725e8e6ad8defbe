// Prints where the Chromium of the npm package lies, for machines that have none of their own. It
// is unpacked inside node_modules: a name in a folder that everybody may write to could be another's.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "node_modules", ".chromium");
mkdirSync(folder, { recursive: true });
process.env.TMPDIR = folder;
const { default: chromium } = await import("@sparticuz/chromium");
console.log(await chromium.executablePath());
