// Healthy is what can be written to: a primary or a router that has a majority acknowledge a no-op in the oplog (a router
// asks every shard), a secondary that knows its primary. An open port says nothing. Run by mongosh --nodb, in a server's
// own container.
load('/mongofault/access.js');

const server = admin('127.0.0.1:27017', 5000);
const hello = server.runCommand({hello: 1});
if (!(hello.secondary && hello.primary)) {
    const note = {appendOplogNote: 1, data: {healthy: 1}, writeConcern: {w: 'majority', wtimeout: 8000}};
    const reply = server.runCommand(note);
    // Without a shard there is nobody to ask.
    if (hello.msg === 'isdbgrid' && !Object.keys(reply.raw || {}).length) quit(1);
}
quit(0);
