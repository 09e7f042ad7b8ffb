// Starts Azurite's blob service: `node start.js FOLDER [options]`, where FOLDER holds node_modules.
//
// Azurite 3.35 ignores `startFrom` of List Blobs and lists from the beginning. Clients that follow a Delta log
// from a version on (delta-rs) take the answer at its word and see commits twice. Here it becomes the list's
// marker, which Azurite honours. A marker excludes its own key and startFrom includes it, so the key itself is
// made a little smaller: "a/5.json" becomes "a/5.jsom\uffff", and no key lies between the two.
const path = require("path");

const [folder, ...options] = process.argv.slice(2);
const blob = path.join(folder, "node_modules", "azurite", "dist", "src", "blob");
const { default: Store } = require(path.join(blob, "persistence", "LokiBlobMetadataStore.js"));

const MARKER = 6; // its place among the arguments after the context, counted from 0
const list = Store.prototype.listBlobs;
Store.prototype.listBlobs = function (context, ...rest) {
  const from = context.request.getQuery("startFrom");
  if (from && !(rest[MARKER] > from)) {
    rest[MARKER] = justBefore(from);
  }
  return list.call(this, context, ...rest);
};

function justBefore(key) {
  const last = key.charCodeAt(key.length - 1);
  return key.slice(0, -1) + String.fromCharCode(last - 1) + "\uffff";
}

process.argv = [process.argv[0], path.join(blob, "main.js"), ...options];
require(path.join(blob, "main.js"));
