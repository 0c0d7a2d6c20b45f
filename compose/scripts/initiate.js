// Makes a cluster of running servers: initiates SETS, adds the shards through ROUTERS, adds a user where there is a
// password. What is done already is left as it is: it can run again at any time. Run by mongosh --nodb.
load('/mongofault/access.js');

const DEADLINE = 120000;  // ms, for all of it
const ALREADY_INITIALIZED = 23;
const USER_EXISTS = 51003;

const sets = JSON.parse(process.env.SETS);
const routers = process.env.ROUTERS.split(',').filter(Boolean);
const password = secret('password');
const end = Date.now() + DEADLINE;

function until(what, attempt) {
    let last = 'nothing was tried';
    while (Date.now() < end) {
        try {
            if (attempt()) {
                print(what);
                return;
            }
            last = 'not yet';
        } catch (error) {
            last = error;
        }
        sleep(200);
    }
    print(`NOT ${what} within ${DEADLINE / 1000} s: ${last}`);
    quit(1);
}

// Runs it; an error with this code says that it was done before.
function once(db, command, code) {
    try {
        db.runCommand(command);
    } catch (error) {
        if (error.code !== code) throw error;
    }
    return true;
}

function addUser(db, where) {
    const user = {createUser: process.env.MONGO_USER, pwd: password.trim(), roles: ['root']};
    until(`user ${process.env.MONGO_USER} on ${where}`,
          () => once(db, {...user, writeConcern: {w: 'majority', wtimeout: 10000}}, USER_EXISTS));
}

for (const set of sets) {
    until(`${set._id} initiated`, () => once(admin(set.members[0].host), {replSetInitiate: set}, ALREADY_INITIALIZED));
}
for (const set of sets) {
    let primary;
    until(`${set._id} has a primary`, () => {
        const first = admin(set.members[0].host);
        const hello = first.runCommand({hello: 1});
        // A new set would wait for an election timeout first.
        if (!hello.primary) first.runCommand({replSetStepUp: 1});
        primary = first.runCommand({hello: 1}).primary;
        return primary && admin(primary).runCommand({hello: 1}).isWritablePrimary;
    });
    // Those of a sharded cluster are the config servers'; members of a shard that are spoken to directly know their own.
    if (password) addUser(admin(primary), set._id);
}
if (routers.length) {
    for (const set of sets.filter((one) => !one.configsvr)) {
        const hosts = set.members.map((one) => one.host).join(',');
        until(`${set._id} is a shard`, () => admin(routers[0]).runCommand({addShard: `${set._id}/${hosts}`}));
    }
    for (const router of routers) until(`${router} routes`, () => admin(router).runCommand({listShards: 1}));
}
quit(0);
