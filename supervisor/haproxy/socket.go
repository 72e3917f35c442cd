package haproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

const (
	answerTimeout   = 2 * time.Second  // without anything from HAProxy
	exchangeTimeout = 30 * time.Second // for all answers on a connection
	pipelineBytes   = 12 << 10         // of commands sent before their answers are read: they fit into HAProxy's buffer
	maxAnswer       = 16 << 20         // bytes of all answers on a connection: more than 25,000 servers
)

// socket is the address of a Runtime API.
type socket struct {
	text             string // as configured
	network, address string
}

// newSocket parses HAProxy's own notation; a bare path is a unix socket.
func newSocket(text string) (socket, error) {
	kind, address, ok := strings.Cut(text, "@")
	if !ok {
		kind, address = "unix", text
	}
	network, ok := map[string]string{"unix": "unix", "ipv4": "tcp4", "ipv6": "tcp6"}[kind]
	if !ok || address == "" {
		return socket{}, fmt.Errorf("cannot understand the socket %q of HAProxy", text)
	}
	return socket{text, network, address}, nil
}

// conversation is what exchange keeps for the next time.
type conversation struct {
	reader *bufio.Reader
	text   bytes.Buffer // one answer
}

func newConversation() *conversation {
	return &conversation{reader: bufio.NewReaderSize(nil, 32<<10)}
}

// exchange sends commands over a new connection and returns an answer for each. An old
// connection would stay with the old process after a reload. A refusal is in the answer;
// an error means that it is unknown which commands HAProxy executed.
func (c *conversation) exchange(ctx context.Context, s socket, commands []string) ([]string, error) {
	dialer := net.Dialer{Timeout: answerTimeout}
	conn, err := dialer.DialContext(ctx, s.network, s.address)
	if err != nil {
		return nil, unreachable(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	limited := &io.LimitedReader{R: &patientReader{conn, time.Now().Add(exchangeTimeout)}, N: maxAnswer}
	c.reader.Reset(limited)
	defer c.reader.Reset(nil)
	answers := make([]string, 0, len(commands)+1)
	// Only the prompt marks reliably where one answer ends and the next begins.
	for batch := append([]string{"prompt"}, commands...); len(batch) > 0; {
		n, size := 0, 0
		for n < len(batch) && (n == 0 || size+len(batch[n]) < pipelineBytes) {
			size += len(batch[n]) + 1
			n++
		}
		if err := conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(conn, strings.Join(batch[:n], "\n")+"\n"); err != nil {
			return nil, err
		}
		for range n {
			if err := readAnswer(c.reader, &c.text); err != nil {
				return nil, broken(err, limited)
			}
			answers = append(answers, string(bytes.TrimSpace(c.text.Bytes())))
		}
		batch = batch[n:]
	}
	return answers[1:], nil
}

// unreachable says what to look at when HAProxy cannot be connected to.
func unreachable(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without the address, which stands before it
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w; is HAProxy running?", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; healthd's user may not use the socket (user, group and mode of HAProxy's stats socket)", err)
	}
	return err
}

// patientReader reads as long as something comes: the answer about many servers takes its time on a busy host.
type patientReader struct {
	conn net.Conn
	end  time.Time
}

// Read implements io.Reader.
func (p *patientReader) Read(b []byte) (int, error) {
	deadline := time.Now().Add(answerTimeout)
	if deadline.After(p.end) {
		deadline = p.end
	}
	if err := p.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return p.conn.Read(b)
}

// broken returns a plain error for an answer without an end.
func broken(err error, limited *io.LimitedReader) error {
	switch {
	case limited.N <= 0:
		return fmt.Errorf("its answer is longer than %d MiB", maxAnswer>>20)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection in the middle of an answer")
	}
	return err
}

var errMaster = errors.New("it is the socket of HAProxy's master: healthd needs a stats socket of its worker")

// readAnswer reads up to the prompt at the beginning of a line.
func readAnswer(r *bufio.Reader, text *bytes.Buffer) error {
	const prompt, master = "> ", "master> "
	text.Reset()
	for {
		head, err := r.Peek(len(prompt))
		if err != nil {
			return err
		}
		if string(head) == prompt {
			_, err := r.Discard(len(prompt))
			return err
		}
		if string(head) == master[:len(prompt)] {
			if head, err := r.Peek(len(master)); err == nil && string(head) == master {
				return errMaster
			}
		}
		for {
			line, err := r.ReadSlice('\n')
			text.Write(line)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
		}
	}
}
