package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Terminal control sequences.
const (
	hideCursor   = "\x1b[?25l"
	showCursor   = "\x1b[?25h"
	clearScreen  = "\x1b[2J"
	cursorHome   = "\x1b[H"
	clearLine    = "\x1b[K" // from the cursor to the end of the line
	clearBelow   = "\x1b[J"
	watchSeconds = 1
)

// watch calls show again and again until ctx ends, and writes the result: in place on a
// terminal, else one below the other. An error of the first call ends it; later errors are
// shown, and it waits for the daemon or the container to come back.
func (a *app) watch(ctx context.Context, show func(io.Writer) error) error {
	var first bytes.Buffer
	if err := show(&first); err != nil {
		return unlessCancelled(ctx, err)
	}
	_, _, onTerminal := a.size()
	if onTerminal {
		io.WriteString(a.stdout, hideCursor+clearScreen)
		defer io.WriteString(a.stdout, showCursor)
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ticker := time.NewTicker(watchSeconds * time.Second)
	defer ticker.Stop()
	text, lastError := first.String(), ""
	for {
		if err := a.redraw(text, onTerminal); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case <-ticker.C:
		}
		var next bytes.Buffer
		err := show(&next)
		if ctx.Err() != nil {
			return nil
		}
		lastError = a.report(&next, err, lastError, onTerminal)
		text = next.String()
	}
}

// report adds the error to the screen on a terminal. Elsewhere it prints each error once.
func (a *app) report(screen io.Writer, err error, before string, onTerminal bool) (now string) {
	if err == nil {
		return ""
	}
	now = printable(err.Error())
	switch {
	case onTerminal:
		fmt.Fprintln(screen, "healthd:", now)
	case now != before:
		a.printError(err)
	}
	return now
}

// redraw overwrites the screen line by line: clearing it first would flicker. It leaves out
// lines below the screen, which would scroll it.
func (a *app) redraw(text string, onTerminal bool) error {
	if onTerminal {
		width, height, ok := a.size()
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if more := len(lines) - height; ok && more > 0 && height > 1 {
			lines = append(lines[:height-1], fmt.Sprintf("… %s", plural(more+1, "more line")))
		}
		for i := range lines {
			if ok {
				lines[i] = fit(lines[i], width)
			}
		}
		text = cursorHome + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow
	}
	_, err := io.WriteString(a.stdout, text)
	return err
}

// fit cuts a line that would wrap. Colours take no room,
// and those after the cut are kept so that the last one ends there.
func fit(s string, width int) string {
	var b strings.Builder
	escape, used := false, 0
	for _, r := range s {
		switch {
		case escape:
			escape = r != 'm'
		case r == '\x1b':
			escape = true
		case used < width:
			used++
		default:
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
