package prober

import (
	"bufio"
	"bytes"
	"math"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// grpcLastStream is the last stream that a client may open.
const grpcLastStream = math.MaxInt32

// grpcLink is a connection with what its calls leave for the next one.
type grpcLink struct {
	conn  grpcConn
	since time.Time
	seen  handshakes

	stream   uint32         // of the newest call; 0: there was none
	decoder  *hpack.Decoder // has the server's table
	rest     []byte         // came after the last reply
	received uint32         // bytes of data that the server does not know to be read
	draining bool           // the server takes no more calls

	// window is how many bytes of data the server takes, streamWindow how many of them for a new call,
	// and streams how many calls at once.
	window, streamWindow int64
	streams              uint32
}

func newGRPCLink() *grpcLink {
	return &grpcLink{
		since:   time.Now(),
		decoder: hpack.NewDecoder(grpcTable, nil),
		window:  grpcWindow, streamWindow: grpcWindow, streams: math.MaxUint32,
	}
}

// Close resets the connection.
func (l *grpcLink) Close() error { return l.conn.Close() }

func (l *grpcLink) opened() time.Time { return l.since }

func (l *grpcLink) isNew() bool { return l.stream == 0 }

// nextStream has a new call take its stream. Clients open those with odd numbers.
func (l *grpcLink) nextStream() {
	if l.isNew() {
		l.stream = 1
	} else {
		l.stream += 2
	}
}

// takes says that one more call with a message of so many bytes can be made at once. A server gives back a
// window when it likes, and a new connection has one of its own.
func (l *grpcLink) takes(size int) bool {
	return l.stream < grpcLastStream && l.streams > 0 && min(l.window, l.streamWindow) >= int64(size)
}

// settings takes a SETTINGS frame.
func (l *grpcLink) settings(f *http2.SettingsFrame) {
	_ = f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			l.streamWindow = int64(s.Val)
		case http2.SettingMaxConcurrentStreams:
			l.streams = s.Val
		}
		return nil
	})
}

// grow takes a WINDOW_UPDATE frame of the connection.
func (l *grpcLink) grow(n uint32) { l.window = min(l.window+int64(n), math.MaxInt32) }

// keep has the next call read what is in br. The buffer itself is used by other probes meanwhile.
func (l *grpcLink) keep(br *bufio.Reader) {
	rest, _ := br.Peek(br.Buffered())
	l.rest = append(bytes.Clone(rest), l.rest...)
}
