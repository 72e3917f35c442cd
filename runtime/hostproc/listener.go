package hostproc

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// ListensHere says whether the Unix socket at a path was made in this process' network namespace: the kernel lists
// its sockets with their files to each process, whatever its rights. It is not sure where a file shows another inode or
// device than the kernel knows, and where the socket is being replaced.
func ListensHere(path string) (here, sure bool) {
	var before, after unix.Stat_t
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil || fs.Type == unix.OVERLAYFS_SUPER_MAGIC || unix.Stat(path, &before) != nil {
		return false, false
	}
	files, err := listeningFiles()
	if err != nil || unix.Stat(path, &after) != nil || before.Ino != after.Ino {
		return false, false
	}
	want := vfsFile{uint32(before.Ino), unix.Major(before.Dev)<<20 | unix.Minor(before.Dev)}
	if files[want] {
		return true, true
	}
	for f := range files {
		if f.inode == want.inode { // btrfs shows the device of a subvolume
			return false, false
		}
	}
	return false, true
}

// vfsFile is the file of a socket, as the kernel numbers it within itself.
type vfsFile struct{ inode, device uint32 }

// Of sock_diag(7), which package unix does not have.
const (
	sockDiagByFamily = 20
	stateListen      = 1 << 10
	showVFS          = 2
	attributeVFS     = 1
	diagMessage      = 16 // bytes before the attributes
	maxDiag          = 4 << 20
)

// listeningFiles returns the files of all listening Unix sockets of this network namespace.
func listeningFiles() (map[vfsFile]bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(2 * time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, err
	}
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	files := map[vfsFile]bool{}
	part := make([]byte, 64<<10)
	for read := 0; read < maxDiag; {
		n, _, err := unix.Recvfrom(fd, part, 0)
		if err != nil {
			return nil, err
		}
		read += n
		if done, err := readDiag(part[:n], files); done || err != nil {
			return files, err
		}
	}
	return nil, errors.New("there are too many sockets")
}

// diagRequest asks for all listening Unix sockets.
func diagRequest() []byte {
	const body = 24
	b, order := make([]byte, 0, unix.NLMSG_HDRLEN+body), binary.NativeEndian
	b = order.AppendUint32(b, unix.NLMSG_HDRLEN+body)
	b = order.AppendUint16(b, sockDiagByFamily)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = append(b, make([]byte, 8)...) // number and sender
	b = append(b, unix.AF_UNIX, 0, 0, 0)
	b = order.AppendUint32(b, stateListen)
	b = order.AppendUint32(b, 0) // whatever the socket's own inode
	b = order.AppendUint32(b, showVFS)
	return append(b, make([]byte, 8)...) // cookie
}

// readDiag takes in the sockets of one part of the answer. done says that it was the last one.
func readDiag(part []byte, files map[vfsFile]bool) (done bool, err error) {
	order := binary.NativeEndian
	for len(part) >= unix.NLMSG_HDRLEN {
		size := int(order.Uint32(part))
		if size < unix.NLMSG_HDRLEN || size > len(part) {
			return false, errDiag
		}
		switch order.Uint16(part[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case sockDiagByFamily:
			if size < unix.NLMSG_HDRLEN+diagMessage {
				return false, errDiag
			}
			if f, ok := fileOf(part[unix.NLMSG_HDRLEN+diagMessage : size]); ok {
				files[f] = true
			}
		default:
			return false, errDiag
		}
		part = part[min(aligned(size), len(part)):]
	}
	return false, nil
}

var errDiag = errors.New("the kernel does not list Unix sockets")

// fileOf finds the file of a socket among attributes; a socket may have none.
func fileOf(attributes []byte) (f vfsFile, ok bool) {
	order := binary.NativeEndian
	for len(attributes) >= 4 {
		size := int(order.Uint16(attributes))
		if size < 4 || size > len(attributes) {
			return vfsFile{}, false
		}
		if order.Uint16(attributes[2:]) == attributeVFS && size >= 12 {
			return vfsFile{order.Uint32(attributes[4:]), order.Uint32(attributes[8:])}, true
		}
		attributes = attributes[min(aligned(size), len(attributes)):]
	}
	return vfsFile{}, false
}

func aligned(size int) int { return (size + 3) &^ 3 }
