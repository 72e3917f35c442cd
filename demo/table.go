package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// maxWidth is the greatest width of the table.
const maxWidth = 100

// frame is the table of healthd status with a column for HAProxy, and below it the counts
// of requests.
func (s *demo) frame(ctx context.Context, colours bool) (string, error) {
	states, err := s.haproxy.serverStates()
	if err != nil {
		return "", err
	}
	var out, complaint bytes.Buffer
	cmd := s.command(ctx, "status")
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("healthd status: %w\n%s", err, complaint.String())
	}
	return addColumn(out.String(), states, colours) + "\n" + s.traffic.summary(), nil
}

// addColumn adds the states after READY, and removes SERVICE, which the names contain.
// Lines below the table stay as they are.
func addColumn(text string, states map[string]string, colours bool) string {
	table, below, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	header := strings.Fields(lines[0])
	service, ready := slices.Index(header, "SERVICE"), slices.Index(header, "READY")
	if service < 0 || ready < service {
		return text // nothing is known yet
	}
	var rows [][]string
	for i, line := range lines {
		row := cut(line, lines[0])
		state, ok := states[row[0]]
		switch {
		case i == 0:
			state = "HAPROXY"
		case !ok:
			state = "-"
		}
		rows = append(rows, slices.Delete(slices.Insert(row, ready+1, state), service, service+1))
	}
	if below != "" {
		below = "\n" + below
	}
	return align(rows, colours) + below
}

// cut splits a line where the words of the header begin.
func cut(line, header string) []string {
	var cells []string
	letters, from := []rune(line), 0
	for i := 1; i <= len(header); i++ { // which is ASCII
		if i < len(header) && (header[i] == ' ' || header[i-1] != ' ') {
			continue
		}
		to := min(i, len(letters))
		if i == len(header) {
			to = len(letters) // the last column's texts may be longer
		}
		cells = append(cells, strings.TrimSpace(string(letters[min(from, to):to])))
		from = i
	}
	return cells
}

// align formats rows with aligned columns.
func align(rows [][]string, colours bool) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, text := range row {
			padding := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+2)
			if i == len(row)-1 {
				padding = "\n"
			}
			if c := colouredState(text); colours && i > 0 && c != "" {
				text = c + text + "\x1b[0m"
			}
			b.WriteString(text + padding)
		}
	}
	return b.String()
}

func colouredState(text string) string {
	const red, green, yellow = "\x1b[31m", "\x1b[32m", "\x1b[33m"
	first, rest, _ := strings.Cut(text, " ")
	switch {
	case first == "no", first == "failed", first == "DOWN", first == "MAINT":
		return red
	case (first == "ok" || first == "UP" || first == "yes") && rest == "":
		return green
	case first == "ok", first == "UP", first == "fail", first == "DRAIN", strings.HasSuffix(first, "BackOff"):
		return yellow
	}
	return ""
}

// live shows the table every second until ctx ends: in place below the head on a
// terminal, else one below the other.
func (s *demo) live(ctx context.Context, head string) error {
	terminal := int(os.Stdout.Fd())
	inPlace := term.IsTerminal(terminal) && os.Getenv("TERM") != "dumb"
	if inPlace {
		fmt.Print("\x1b[?25l\x1b[2J") // no cursor, an empty screen
		defer fmt.Print("\x1b[?25h")
	} else {
		fmt.Println(head)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		width, height, err := term.GetSize(terminal)
		if width <= 0 || height <= 0 { // it does not know
			width, height = 80, 24
		}
		text, frameErr := s.frame(ctx, inPlace && os.Getenv("NO_COLOR") == "" && width >= maxWidth)
		switch {
		case ctx.Err() != nil:
			return nil
		case frameErr != nil:
			return frameErr
		case inPlace && err == nil:
			redraw(head+"\n"+text, width, height)
		default:
			fmt.Println(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// redraw overwrites the screen line by line: clearing it first would flicker. It leaves out
// lines that do not fit, which would scroll it.
func redraw(text string, width, height int) {
	const home, restOfLine, restOfScreen = "\x1b[H", "\x1b[K", "\x1b[J"
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(height, 1))]
	for i, line := range lines {
		if letters := []rune(line); width < maxWidth && len(letters) > width {
			lines[i] = string(letters[:width])
		}
	}
	fmt.Print(home + strings.Join(lines, restOfLine+"\r\n") + restOfLine + restOfScreen)
}
