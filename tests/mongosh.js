// What tests/test_mongosh.py runs in one mongosh: each step's result, or its error, as one document on standard output.
// It knows only the shell's own words, and not what it is connected to.

const results = {};
function step(name, work) {
  try {
    results[name] = work();
  } catch (error) {
    results[name] = { error: `${error.code} ${error.message}` };
  }
}

function next(stream) {
  for (let polls = 0; polls < 60; polls++) {
    const event = stream.tryNext();
    if (event) return event;
  }
  throw new Error("no event in 60 polls");
}

function watched(target, options) {
  const stream = target.watch([], options);
  orders.updateOne({ region: -1 }, { $inc: { seen: 1 } });
  const event = next(stream);
  stream.close();
  return event;
}

db = db.getSiblingDB("shell");
const orders = db.orders;
db.dropDatabase();

step("hello", () => db.hello());
step("enable", () => sh.enableSharding("shell"));
step("shard", () => sh.shardCollection("shell.orders", { region: 1 }));
step("split", () => sh.splitAt("shell.orders", { region: 0 }));
step("owner", () => db.getSiblingDB("config").databases.findOne({ _id: "shell" }).primary);
step("move", () => {
  const other = results.owner === "shard0" ? "shard1" : "shard0";
  return sh.moveChunk("shell.orders", { region: 0 }, other);
});
step("insertOne", () => orders.insertOne({ _id: 1, region: -1, n: 1 }));
step("insertMany", () => orders.insertMany([2, 3, 4].map((n) => ({ _id: n, region: n, n }))));
step("duplicate", () => {
  try {
    orders.insertMany([{ _id: 1, region: -1 }, { _id: 5, region: 5, n: 5 }], { ordered: false });
  } catch (error) {
    return { code: error.code, inserted: error.result.insertedCount, failed: error.writeErrors.length };
  }
  return null;
});
step("find", () => orders.find({ n: { $gte: 2 } }, { _id: 0, n: 1 }).sort({ n: -1 }).limit(3).toArray());
step("batches", () => orders.find().batchSize(2).toArray().length);
step("aggregate", () => orders.aggregate([{ $group: { _id: null, sum: { $sum: "$n" } } }]).toArray());
step("updateOne", () => orders.updateOne({ region: -1 }, { $set: { state: "paid" } }).modifiedCount);
step("updateMany", () => orders.updateMany({ n: { $gt: 2 } }, { $inc: { n: 10 } }).modifiedCount);
step("replaceOne", () => orders.replaceOne({ region: 2 }, { region: 2, n: 22 }).modifiedCount);
step("upsert", () => orders.updateOne({ region: 9 }, { $set: { n: 9 } }, { upsert: true }).upsertedCount);
step("findOneAndUpdate", () =>
  orders.findOneAndUpdate({ region: 3 }, { $set: { n: 0 } }, { returnDocument: "after" }).n);
step("deleteOne", () => orders.deleteOne({ region: 9 }).deletedCount);
step("bulkWrite", () =>
  orders.bulkWrite([
    { insertOne: { document: { _id: 20, region: 20 } } },
    { updateOne: { filter: { region: 20 }, update: { $set: { n: 1 } } } },
    { deleteOne: { filter: { region: 20 } } },
  ]));
step("count", () => [orders.countDocuments({}), orders.estimatedDocumentCount()]);
step("distinct", () => orders.distinct("region"));
step("createIndex", () => [orders.createIndex({ n: 1 }), orders.getIndexes().map((one) => one.name)]);
step("listings", () => [db.getCollectionNames(), db.getMongo().getDBNames().includes("shell")]);
step("stats", () => [orders.stats().sharded, orders.stats().count]);
step("distribution", () => Object.keys(orders.getShardDistribution().value));
step("watch", () => watched(orders, { fullDocument: "updateLookup" }));
step("watchDatabase", () => watched(db, {}));
step("watchCluster", () => watched(db.getMongo(), { fullDocument: "updateLookup" }));
step("explain", () => orders.find({ region: 2 }).explain().queryPlanner.winningPlan.stage);
step("explainAggregate", () => Object.keys(orders.explain().aggregate([{ $match: { n: 1 } }]).shards));
step("dbStats", () => [db.stats().collections, db.stats().objects]);
step("dataSize", () => [orders.dataSize() > 0, orders.totalIndexSize() > 0, orders.storageSize() > 0]);
step("validate", () => orders.validate().valid);
step("balancer", () => [sh.getBalancerState(), sh.isBalancerRunning().mode]);
step("startBalancer", () => [sh.startBalancer().ok, sh.getBalancerState()]);
step("stopBalancer", () => [sh.stopBalancer().ok, sh.getBalancerState()]);
step("balancerStatus", () => sh.balancerCollectionStatus("shell.orders").balancerCompliant);
step("zones", () => {
  sh.addShardToZone("shard1", "shell");
  sh.updateZoneKeyRange("shell.orders", { region: 100 }, { region: 200 }, "shell");
  const tags = db.getSiblingDB("config").tags.find({ ns: "shell.orders" }).toArray();
  sh.removeRangeFromZone("shell.orders", { region: 100 }, { region: 200 });
  sh.removeShardFromZone("shard1", "shell");
  return tags.map((one) => one.tag);
});
step("rename", () => {
  db.small.insertOne({ _id: 1 });
  db.small.renameCollection("smaller");
  const found = db.smaller.findOne()._id;
  db.smaller.drop();
  return found;
});
step("view", () => {
  db.createView("paid", "orders", [{ $match: { n: { $gt: 3 } } }]);
  const found = db.paid.find().toArray().length === orders.countDocuments({ n: { $gt: 3 } });
  db.paid.drop();
  return found;
});
step("logs", () => db.adminCommand({ getLog: "*" }).names.includes("global"));
step("hostInfo", () => typeof db.hostInfo().system.numCores);
step("status", () => sh.status().value);
step("listShards", () => db.adminCommand({ listShards: 1 }).shards.map((one) => one._id));
step("getParameter", () => db.adminCommand({ getParameter: 1, logLevel: 1 }).ok);
step("serverStatus", () => db.adminCommand({ serverStatus: 1 }).version);
step("currentOp", () => Array.isArray(db.adminCommand({ currentOp: 1 }).inprog));
step("connPoolStats", () => db.adminCommand({ connPoolStats: 1 }).ok);
step("buildInfo", () => db.adminCommand({ buildInfo: 1 }).version);
step("flushRouterConfig", () => db.adminCommand({ flushRouterConfig: 1 }).ok);
step("session", () => {
  const session = db.getMongo().startSession({ causalConsistency: true });
  const found = session.getDatabase("shell").orders.findOne({ region: 2 }).n;
  session.endSession();
  return found;
});
step("drop", () => orders.drop());
step("dropDatabase", () => db.dropDatabase().dropped);

print(EJSON.stringify(results, { relaxed: true }));
