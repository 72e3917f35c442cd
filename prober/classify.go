package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// classify returns the Cause of a network error. NotAsked means that the host of healthd
// is at fault, not the container.
func classify(err error) Cause {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return Unreachable
		}
		// A resolver that does not answer says nothing about the container.
		return NotAsked
	}
	if _, ok := errors.AsType[cannotEnter](err); ok {
		return NotAsked
	}
	if _, ok := errors.AsType[noRoute](err); ok {
		return NotAsked
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return classifyErrno(errno)
	}
	switch {
	case errors.Is(err, errHungUp):
		return TLS
	case errors.Is(err, errEnded):
		return Refused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Reset
	case errors.Is(err, http.ErrSchemeMismatch):
		return Protocol
	case isTLS(err):
		return TLS
	}
	return Protocol
}

func classifyErrno(errno syscall.Errno) Cause {
	switch errno {
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.ETIMEDOUT:
		return Timeout
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ENOTCONN:
		return Reset
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.ENONET, syscall.ENOPROTOOPT, syscall.EPROTO:
		return Unreachable
	}
	// EMFILE, EADDRNOTAVAIL, ENOBUFS, EPERM of a local firewall and so on: no fault of
	// the container.
	return NotAsked
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	// The other errors of a handshake have no type.
	return strings.Contains(err.Error(), "tls: ")
}

// failureOrRetry is what an asker returns for err: a Failure with output, or an error,
// which makes another attempt, when it could not ask.
func failureOrRetry(err error, output string) (Result, error) {
	cause := classify(err)
	if cause == NotAsked {
		return Result{}, errors.New(output)
	}
	return Result{Outcome: Failure, Cause: cause, Output: clean(output)}, nil
}

// plainError returns the text of err without the operation and the empty path that
// os.File adds.
func plainError(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err
	}
	switch {
	case errors.Is(err, errHungUp):
		return errHungUp.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server speaks plain HTTP, not TLS (scheme = \"http\"?)"
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // of net/http
		return errSpeaksTLS.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the reply was complete"
	}
	return err.Error()
}

// clean makes output valid UTF-8 of at most MaxOutput bytes.
func clean(s string) string {
	if len(s) > MaxOutput {
		s = s[:MaxOutput]
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= MaxOutput {
		return s
	}
	// A replacement is longer than what it replaces.
	end := MaxOutput
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// shortQuote returns s in quotes, without control characters and not too long.
func shortQuote(s string) string {
	if len(s) > maxQuote {
		return strconv.Quote(s[:maxQuote]) + "…"
	}
	return strconv.Quote(s)
}
