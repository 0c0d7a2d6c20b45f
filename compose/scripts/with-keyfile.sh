# Starts a server ("$@") with the key file from the secret. mongod refuses one that others can read or that is not its
# own, and a secret is whatever the file on the host is: so it gets a copy.
set -e
cp -f /run/secrets/keyfile /tmp/keyfile
chmod 400 /tmp/keyfile
# Debian's and Ubuntu's official images start as root and go on as mongodb; others are their user from the start.
if command -v docker-entrypoint.sh > /dev/null && [ "$(id -u)" = 0 ]; then
    chown mongodb /tmp/keyfile
    set -- docker-entrypoint.sh "$@"
fi
exec "$@" --keyFile /tmp/keyfile
