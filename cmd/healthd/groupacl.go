package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// giveToGroup lets the members of a group use the socket at path. The unit leaves healthd no right
// to change groups: there an entry of the socket's access control list says the same.
func giveToGroup(path string, group int) error {
	if info, err := os.Stat(path); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int64(s.Gid) == int64(group) {
			return nil
		}
	}
	err := os.Chown(path, -1, group)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	if acl := unix.Setxattr(path, "system.posix_acl_access", socketACL(uint32(group)), 0); acl != nil {
		return fmt.Errorf("%w (by an access control list: %w)", err, acl)
	}
	return nil
}

// socketACL returns the access control list of mode 0660 with one more group that may read and
// write, as the kernel has it in the extended attribute (linux/posix_acl_xattr.h).
func socketACL(group uint32) []byte {
	const (
		version                                 = 2
		userObj, groupObj, oneGroup, mask, rest = 0x01, 0x04, 0x08, 0x10, 0x20
		readWrite, nothing                      = 0o6, 0
		noID                                    = ^uint32(0)
	)
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, entry := range []struct {
		tag, may uint16
		id       uint32
	}{{userObj, readWrite, noID}, {groupObj, readWrite, noID}, {oneGroup, readWrite, group}, {mask, readWrite, noID}, {rest, nothing, noID}} {
		b = binary.LittleEndian.AppendUint16(b, entry.tag)
		b = binary.LittleEndian.AppendUint16(b, entry.may)
		b = binary.LittleEndian.AppendUint32(b, entry.id)
	}
	return b
}
