// Builds what the dashboard serves from npm's packages: `npm ci && node build.mjs FOLDER`.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { build } from "esbuild";

const [, , folder] = process.argv;
const LICENCES = {
  echarts: ["LICENSE", "NOTICE"],
  zrender: ["LICENSE"],
  tslib: ["LICENSE.txt"],
  "htmx.org": ["LICENSE"],
};

const versionOf = async (name) => JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8")).version;
const bundled = await Promise.all(
  Object.entries({ echarts: "Apache-2.0", zrender: "BSD-3-Clause", tslib: "0BSD" }).map(
    async ([name, licence]) => `${name} ${await versionOf(name)} (${licence})`,
  ),
);

await mkdir(folder, { recursive: true });
await build({
  entryPoints: ["charts.js"],
  outfile: join(folder, "echarts.js"),
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "echarts",
  target: "es2020",
  legalComments: "none",
  banner: { js: `/* ${bundled.join(", ")}: see LICENCES.txt */` },
});
await copyFile("node_modules/htmx.org/dist/htmx.min.js", join(folder, "htmx.js"));

const parts = [];
for (const [name, files] of Object.entries(LICENCES)) {
  const version = await versionOf(name);
  for (const file of files) {
    parts.push(`${name} ${version}: ${file}\n\n${(await readFile(`node_modules/${name}/${file}`, "utf8")).trim()}\n`);
  }
}
await writeFile(join(folder, "LICENCES.txt"), parts.join(`\n${"=".repeat(80)}\n\n`));
