package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	answerTimeout = 2 * time.Second // for the answers to one batch of commands
	pipelineDepth = 64              // commands sent before their answers are read: they fit into HAProxy's buffer
	maxAnswer     = 16 << 20        // bytes of all answers on a connection: more than 25,000 servers
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

// exchange sends commands over a new connection and returns an answer for each. An old
// connection would stay with the old process after a reload. A refusal is in the answer;
// an error means that it is unknown which commands HAProxy executed.
func (s socket) exchange(ctx context.Context, commands []string) ([]string, error) {
	dialer := net.Dialer{Timeout: answerTimeout}
	conn, err := dialer.DialContext(ctx, s.network, s.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	limited := &io.LimitedReader{R: conn, N: maxAnswer}
	r := bufio.NewReaderSize(limited, 32<<10)
	answers := make([]string, 0, len(commands))
	// Only the prompt marks reliably where one answer ends and the next begins.
	for batch := append([]string{"prompt"}, commands...); len(batch) > 0; {
		n := min(pipelineDepth, len(batch))
		if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(conn, strings.Join(batch[:n], "\n")+"\n"); err != nil {
			return nil, err
		}
		for range n {
			answer, err := readAnswer(r)
			if err != nil {
				return nil, broken(err, limited)
			}
			answers = append(answers, answer)
		}
		batch = batch[n:]
	}
	return answers[1:], nil
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
func readAnswer(r *bufio.Reader) (string, error) {
	const prompt, master = "> ", "master> "
	var text strings.Builder
	for {
		head, err := r.Peek(len(prompt))
		if err != nil {
			return "", err
		}
		if string(head) == prompt {
			_, err := r.Discard(len(prompt))
			return strings.TrimSpace(text.String()), err
		}
		if string(head) == master[:len(prompt)] {
			if head, err := r.Peek(len(master)); err == nil && string(head) == master {
				return "", errMaster
			}
		}
		for {
			line, err := r.ReadSlice('\n')
			text.Write(line)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return "", err
			}
		}
	}
}
