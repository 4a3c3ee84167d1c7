// What the JavaScript programs share: one line of output for each feature.
"use strict";
const assert = require("node:assert/strict");

const REFERENCE = "CONFORMANCE_REFERENCE" in process.env;
const steps = [];

class Skip extends Error {}

function tell(word, name, why = "") {
  console.log(word, name, String(why).replace(/\s+/g, " ").slice(0, 300));
}

// Notes a feature; go() runs them in their order.
function feature(name, body) {
  steps.push([name, body]);
}

function product() {
  if (REFERENCE) throw new Skip("PostgreSQL has no computed columns");
}

async function go(client, done) {
  const about = require("node:fs").readFileSync(`${process.env.NODE_PATH}/${client}/package.json`);
  console.log("version", JSON.parse(about).version);
  for (const [name, body] of steps) {
    try {
      let timer;
      const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("no answer in 20 s")), 20000); });
      await Promise.race([body(), late]).finally(() => clearTimeout(timer));
      tell("ok", name);
    } catch (error) {
      if (error instanceof Skip) {
        tell("skip", name, error.message);
      } else {
        console.error(name, error);
        const code = error.code && error.code !== "ERR_ASSERTION" ? `${error.code} ` : "";
        tell("fail", name, code + (error.message || error));
      }
    }
  }
  if (done) await Promise.race([done(), new Promise((end) => setTimeout(end, 3000))]);
  process.exit(0);
}

// The error that a promise is rejected with.
async function rejected(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("no error");
}

module.exports = { assert, feature, go, product, rejected, Skip };
