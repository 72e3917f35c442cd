#!/bin/sh
# Does what nerdctl's OCI hooks and CNI plugins do for a container on the bridge $BRIDGE. runc
# gives the container's state on standard input. Each task gets another address.
# Usage: hook.sh createRuntime|poststop DIRECTORY CONTAINER META
# DIRECTORY has a file for each address in use; META is for what nerdctl knows of the container.
set -eu

# take finds the first address that is free after the last one that was taken.
take() {
    last=1
    [ ! -e newest ] || read -r last <newest
    tries=0
    while last=$(((last - 1) % 125 + 2)) && [ -e "address-$last" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 125 ] || { echo "no address is free" >&2; exit 1; }
    done
    echo "$last" >newest
    echo "$container" >"address-$last"
}

# connect makes the container's interface. Its hardware address is that of its address, as
# neighbours remember the last one.
connect() {
    state=$(cat)
    pid=${state#*\"pid\":}
    pid=${pid%%[!0-9]*}
    mac=$(printf '0a:58:0a:d5:%02x:%02x' "${PREFIX##*.}" "$last")
    ip link add "$BRIDGE-$last" master "$BRIDGE" up type veth peer name eth0 address "$mac" netns "$pid"
    nsenter -t "$pid" -n ip -batch - <<END
link set lo up
addr add $PREFIX.$last/25 dev eth0
link set eth0 up
route add default via $PREFIX.1
END
}

# release undoes take and connect. The kernel may have removed the interface before.
release() {
    rm -f "$meta"
    for file in address-*; do
        [ -e "$file" ] || continue
        read -r of <"$file"
        if [ "$of" = "$container" ]; then
            ip link del "$BRIDGE-${file#address-}" 2>/dev/null || :
            rm "$file"
        fi
    done
}

action=$1 container=$3 meta=$4
cd "$2"
exec 9>lock
flock 9
case $action in
createRuntime)
    release # the last task's shim may have died before it called poststop
    take
    flock -u 9
    connect
    echo "{\"Networks\":{\"bridge\":{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"$PREFIX.$last/25\",\"gateway\":\"$PREFIX.1\"}]}}}" >"$meta"
    ;;
poststop) release ;;
esac
