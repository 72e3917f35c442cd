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

// widest is what the table needs at most.
const widest = 100

// frame is the table of healthd status with what HAProxy shows, and below it how the
// requests fare.
func (s *show) frame(ctx context.Context, colours bool) (string, error) {
	states, err := s.haproxy.shown()
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

// addColumn puts the states beside READY. SERVICE makes room for them: it is in the
// names. What stands below the table stays as it is.
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

// cut cuts a line where the words of the header begin.
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

// align writes the columns under each other.
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
			if c := colour(text); colours && i > 0 && c != "" {
				text = c + text + "\x1b[0m"
			}
			b.WriteString(text + padding)
		}
	}
	return b.String()
}

func colour(text string) string {
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
func (s *show) live(ctx context.Context, head string) error {
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
		text, frameErr := s.frame(ctx, inPlace && os.Getenv("NO_COLOR") == "" && width >= widest)
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

// redraw writes over what was there line by line, as an empty screen in between would
// flicker. What does not fit is left out: it would scroll.
func redraw(text string, width, height int) {
	const home, restOfLine, restOfScreen = "\x1b[H", "\x1b[K", "\x1b[J"
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(height, 1))]
	for i, line := range lines {
		if letters := []rune(line); width < widest && len(letters) > width {
			lines[i] = string(letters[:width])
		}
	}
	fmt.Print(home + strings.Join(lines, restOfLine+"\r\n") + restOfLine + restOfScreen)
}
