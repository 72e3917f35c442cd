package main

import "testing"

// A journal on a disk of its own is removed by a purge, and the purge does not fail for its mount point.
func TestPurgeWithMount(t *testing.T) {
	const purge = `set -e
mount -t tmpfs none /etc
mount -t tmpfs none /var/lib
mkdir -p /etc/healthd/conf.d /var/lib/healthd
mount -t tmpfs none /var/lib/healthd
touch /var/lib/healthd/journal.db
sh scripts/deb-postrm purge 2>/dev/null
ls -A /var/lib/healthd
! test -e /etc/healthd`
	if left := run(t, ".", "unshare --mount sh -c '"+purge+"'"); left != "" {
		t.Errorf("left: %s", left)
	}
}
