// Connections, as a member of the cluster where there is a key file: that user may do anything, and is there from the
// start. For health.js and initiate.js; run by mongosh.
const fs = require('fs');

const SECRETS = '/run/secrets';

function secret(name) {
    const path = `${SECRETS}/${name}`;
    return fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : undefined;
}

// `address`: host:port of one server, whatever set it is in. In milliseconds; throws where it does not answer in time.
function admin(address, patience = 2000) {
    const key = secret('keyfile');
    // A key file is read without its white space.
    const user = key && `__system:${encodeURIComponent(key.replace(/\s/g, ''))}@`;
    const how = `directConnection=true&serverSelectionTimeoutMS=${patience}&connectTimeoutMS=${patience}` +
        (key ? '&authSource=local&authMechanism=SCRAM-SHA-256' : '');
    return new Mongo(`mongodb://${user || ''}${address}/?${how}`).getDB('admin');
}
