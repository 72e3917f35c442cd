package hostproc

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// The end of what the kernel says ends the reading, wherever it is cut.
func TestListOfSocketsIsCut(t *testing.T) {
	order := binary.NativeEndian
	message := func(kind uint16, body ...byte) []byte {
		b := order.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
		b = order.AppendUint16(b, kind)
		return append(append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...), body...)
	}
	attribute := func(kind uint16, values ...uint32) []byte {
		b := order.AppendUint16(nil, uint16(4+4*len(values)))
		b = order.AppendUint16(b, kind)
		for _, v := range values {
			b = order.AppendUint32(b, v)
		}
		return b
	}
	body := append(make([]byte, diagMessage), attribute(6, 0)...)
	body = append(body, attribute(attributeVFS, 4711, 1)...)
	whole := append(message(sockDiagByFamily, body...), message(unix.NLMSG_DONE, 0, 0, 0, 0)...)
	for end := range len(whole) + 1 {
		files := map[vfsFile]bool{}
		done, err := readDiag(whole[:end:end], files)
		if last := end == len(whole); done != last || last && (err != nil || !files[vfsFile{4711, 1}] || len(files) != 1) {
			t.Errorf("%d bytes of %d: %v, done: %v, %v", end, len(whole), files, done, err)
		}
	}
	if _, err := readDiag(message(unix.NLMSG_ERROR, 0, 0, 0, 0), nil); err == nil {
		t.Error("an error of the kernel is none")
	}
}
